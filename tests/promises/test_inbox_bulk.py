"""Many inbox entries at once: each is handled for itself, and a dry run tells what would happen."""

from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.store.inbox import BulkResult, EntryFilter
from holdfast.errors import RequestInvalid
from holdfast.testing import Clock
from tests.promises.test_inbox import MISSING, fail, ids, owner, steps

__all__ = ["owner"]


def handled(bulk: BulkResult) -> set[UUID]:
    return {one.id for one in bulk.handled}


async def test_all_that_fit_are_handled_and_no_other(store: Store, clock: Clock) -> None:
    work = [await fail(store, clock) for _ in range(3)]
    mail = await fail(store, clock, "mail")
    done = await store.inbox.bulk("retry", "ada", which=EntryFilter(name="work"), note="mended")
    assert (handled(done), done.refused, done.next, done.remaining) == (set(work), [], None, 0)
    for one in done.handled:
        entry = await store.inbox.entry(one.id)
        assert (entry.resolution, entry.resolved_by, entry.note) == ("retried", "ada", "mended")
        assert entry.retried_as == one.retried_as
        assert (await store.read(one.retried_as or ""))["retry_of"] == str(one.task_id)
    assert await ids(store) == [mail]
    closed = await store.inbox.bulk("discard", "bob", which=EntryFilter(lifecycle="dispatch"))
    assert [(one.id, one.retried_as) for one in closed.handled] == [(mail, None)]
    assert (await store.inbox.entry(mail)).resolution == "discarded"


@pytest.mark.parametrize("action", ["retry", "resolve", "discard"])
async def test_a_dry_run_tells_exactly_what_would_happen_and_changes_nothing(
    store: Store, clock: Clock, owner: asyncpg.Connection, action: str
) -> None:
    entries = [await fail(store, clock) for _ in range(3)]
    forgotten = (await store.inbox.entry(entries[1])).task_id
    await owner.execute("set session_replication_role = replica")
    await owner.execute("delete from holdfast.task_done where id = $1", forgotten)
    before = await everything(owner)
    dry = await store.inbox.bulk(action, "ada", which=EntryFilter(category="Fatal"), dry_run=True)  # type: ignore[arg-type]
    assert await everything(owner) == before
    real = await store.inbox.bulk(action, "ada", which=EntryFilter(category="Fatal"))  # type: ignore[arg-type]
    assert (handled(dry), dry.refused, dry.next) == (handled(real), real.refused, real.next)
    assert [one.id for one in real.refused] == ([entries[1]] if action == "retry" else [])
    assert {one.retried_as for one in dry.handled} == {None}


async def everything(owner: asyncpg.Connection) -> list[str]:
    tables = ("inbox", "task", "task_done", "input", "event", "step", "step_event", "slot")
    digest = "md5(string_agg(r::text, '|' order by r::text))"
    parts = [f"select '{name}' || {digest} from holdfast.{name} r" for name in tables]
    return [row[0] for row in await owner.fetch(" union all ".join(parts))]


async def test_the_refusal_of_one_does_not_undo_the_others(
    store: Store, clock: Clock, owner: asyncpg.Connection
) -> None:
    entries = [await fail(store, clock) for _ in range(5)]
    tasks = [(await store.inbox.entry(entry)).task_id for entry in entries]
    await store.inbox.resolve(entries[0], "bob")
    await owner.execute("set session_replication_role = replica")
    await owner.execute("delete from holdfast.task_done where id = $1", tasks[1])
    await owner.execute("delete from holdfast.step_event where task_id = $1", tasks[2])
    done = await store.inbox.bulk("retry", "ada", ids=[*entries, entries[4], MISSING], from_step="extracted")
    assert handled(done) == set(entries[3:])
    assert {one.id: one.code for one in done.refused} == {
        entries[0]: "move-refused", entries[1]: "task-not-found", entries[2]: "step-unknown", MISSING: "task-not-found",
    }  # fmt: skip
    assert all(one.detail for one in done.refused)
    assert [await steps(store, one.retried_as) for one in done.handled if one.retried_as] == [["fetched"], ["fetched"]]
    assert set(await ids(store)) == set(entries[1:3])


async def test_what_the_effects_refuse_is_reported_with_their_message(
    store: Store, clock: Clock, owner: asyncpg.Connection
) -> None:
    entries = [await fail(store, clock, payload={"n": n}) for n in range(2)]
    await owner.execute(
        "create function holdfast.refuse_one() returns trigger language plpgsql as $$ begin"
        " if new.payload = '{\"n\": 0}' then raise exception 'no credit'; end if; return new; end $$;"
        "create trigger refuse_one before insert on holdfast.input for each row execute function holdfast.refuse_one()"
    )
    done = await store.inbox.bulk("retry", "ada", ids=entries)
    assert handled(done) == {entries[1]}
    assert [(one.id, one.code, one.detail) for one in done.refused] == [(entries[0], "move-refused", "no credit")]


async def test_very_many_go_call_by_call(store: Store, clock: Clock) -> None:
    entries = [await fail(store, clock) for _ in range(5)]
    which, seen, cursor = EntryFilter(category="Fatal"), [], None
    for left in (3, 1, 0):
        done = await store.inbox.bulk("resolve", "ada", which=which, limit=2, cursor=cursor)
        assert (done.remaining, done.capped) == (left, False)
        seen.append(handled(done))
        cursor = done.next
    assert seen == [set(entries[3:]), set(entries[1:3]), {entries[0]}]
    assert cursor is None


async def test_a_time_leaves_out_what_came_after_it(store: Store, clock: Clock) -> None:
    first = await fail(store, clock)
    then = clock.now()
    await fail(store, clock)
    assert handled(await store.inbox.bulk("resolve", "ada", before=then)) == {first}
    assert handled(await store.inbox.bulk("resolve", "ada", before=then - timedelta(days=1))) == set()


async def test_entries_of_one_task_are_handled_by_one_retry(
    store: Store, clock: Clock, owner: asyncpg.Connection
) -> None:
    entry = await fail(store, clock)
    task = (await store.inbox.entry(entry)).task_id
    await owner.execute("insert into holdfast.inbox (task_id, category, signature) values ($1, 'Fatal', 'x')", task)
    done = await store.inbox.bulk("retry", "ada", which=EntryFilter(category="Fatal"))
    assert (len(done.handled), len({one.retried_as for one in done.handled}), done.refused) == (2, 1, [])
    assert await ids(store) == []


WRONG = {
    "no entries": {}, "both": {"ids": [MISSING], "which": EntryFilter(name="x")},
    "none": {"ids": [MISSING], "limit": 0},
    "too many": {"ids": [MISSING] * 1001}, "limit": {"which": EntryFilter(name="x"), "limit": 1001},
    "a step": {"ids": [MISSING], "from_step": "a"}, "a note": {"ids": [MISSING], "note": "x" * 2001},
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_bulk_that_makes_no_sense_is_refused(store: Store, clock: Clock, wrong: str) -> None:
    entry = await fail(store, clock)
    with pytest.raises(RequestInvalid):
        await store.inbox.bulk("resolve", "ada", **WRONG[wrong])  # type: ignore[arg-type]
    assert await ids(store) == [entry]
