-- What travels with a task beside its payload: tags to find it by, and the trace that its enqueuing belongs to.
alter table holdfast.input add column tags text[], add column trace text;
create index input_tags on holdfast.input using gin (tags) where tags is not null;

-- What a worker knows of the tasks it can run: {name: {queue, max_attempts, priority}}.
alter table holdfast.worker add column tasks jsonb;

-- A worker that sleeps says so, and whoever makes work for it wakes it.
alter table holdfast.worker add column idle_since timestamptz;
alter table holdfast.worker set (fillfactor = 50);
create index worker_idle on holdfast.worker (id) where idle_since is not null;

-- A task that one more lost worker would end is run apart from others; one that was held before may have steps to find.
alter type holdfast.lease add attribute crashes int;
alter type holdfast.lease add attribute last_chance bool;
alter type holdfast.lease add attribute resumed bool;
alter type holdfast.lease add attribute trace text;
