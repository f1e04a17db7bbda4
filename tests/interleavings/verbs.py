"""Every verb that the application may call and that writes, with each way in which it can meet another."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from holdfast.engine.store.bulk import Action, Filters
from holdfast.engine.store.commands import Store
from holdfast.engine.store.inbox import EntryFilter
from holdfast.engine.task import (
    Cancelled,
    Checkpoint,
    Completion,
    Done,
    Failed,
    Json,
    Later,
    Moved,
    Outcome,
    Submission,
)
from tests.interleavings.scene import TREE, Scene
from tests.promises.stage import MINUTE

Verb = Callable[[Store, Scene], Awaitable[object]]

WRITES_NOTHING = {
    "uuid7": "makes a number",
    "lose_these": "is another name of mark_lost",
    "hand_back": "is another name of release_leases",
    "refuse_claim": "raises what explain says",
    "take_cleanups": "is about files, and takes each row once",
    "end_cleanup": "is about files",
}
"""Volatile functions of the application that are in no pair. Postgres itself keeps the stable ones from writing."""

SPENT: Json = [{"model": "m", "tokens_in": 5}]
NEW_TREE = replace(TREE, version=2, crash_budget=7)


def ends(outcome: Outcome, *roles: str) -> Verb:
    return lambda store, scene: store.settle(*((getattr(scene, role), outcome) for role in roles))


def cancels(role: str) -> Verb:
    return lambda store, scene: store.cancel(
        getattr(scene, role) if role not in ("held", "split") else getattr(scene, role).task_id
    )


def completes(*roles: str, events: bool) -> Verb:
    written = (("seen", None, {"n": 1}), ("usage", None, SPENT)) if events else ()
    return lambda store, scene: store.complete(*(Completion(getattr(scene, role), Done(1), written) for role in roles))


def bulk(action: Action, *, name: str | None = None, state: str | None = None) -> Verb:
    """A page of what was there before: what is born meanwhile is not of this page, whether it is seen or not."""
    fitting = Filters(name=name, state=state)
    return lambda store, scene: store.bulk.run(action, fitting, "eve", cursor=UUID(int=scene.draft.int + 1))


VERBS: dict[str, Verb] = {
    "submit": lambda store, scene: store._rows("select holdfast.submit('new', key => 'fresh', limit_key => 'k')"),
    "submit, after held": lambda store, scene: store._rows(
        "select holdfast.submit('new', after => array[$1::uuid], parent => $2)", scene.held.task_id, scene.split.task_id
    ),
    "submit_many, key": lambda store, scene: store.submit(Submission("new", key="fresh")),
    "submit_many, key of another": lambda store, scene: store.submit(Submission("other", key="fresh")),
    "submit_many, after held": lambda store, scene: store.submit(Submission("new", after=[scene.held.task_id])),
    "submit_many, parent held": lambda store, scene: store.submit(Submission("new", parent=scene.held.task_id)),
    "submit_many, parent gatherer": lambda store, scene: store.submit(Submission("new", parent=scene.gatherer)),
    "submit_many, parent split": lambda store, scene: store.submit(Submission("new", parent=scene.split.task_id)),
    "submit_many, parent gatherer after split": lambda store, scene: store.submit(
        Submission("new", parent=scene.gatherer, after=[scene.split.task_id])
    ),
    "submit_many, parent split after gatherer": lambda store, scene: store.submit(
        Submission("new", parent=scene.split.task_id, after=[scene.gatherer])
    ),
    "submit_many, limit": lambda store, scene: store.submit(Submission("new", limit_key="k")),
    "submit_many, limit raised": lambda store, scene: store.submit(Submission("new", limit_key="k", limit_to=2)),
    "submit_many, free limit": lambda store, scene: store.submit(Submission("new", limit_key="free")),
    "submit_many, new limit": lambda store, scene: store.submit(Submission("new", limit_key="fresh")),
    "submit_many, family": lambda store, scene: store.submit(
        Submission("new", lifecycle="tree", key="fresh tree"),
        Submission("new", parent=0, after=[scene.held.task_id, scene.child.task_id]),
    ),
    "claim": lambda store, scene: store.claim(["default"], 9, lasting=MINUTE, worker="v"),
    "claim, names": lambda store, scene: store.claim(["default"], 9, lasting=MINUTE, worker="w", names=["unknown"]),
    "claim_these": lambda store, scene: store.claim_these(
        [scene.ready, scene.limited, scene.held.task_id, scene.dependent], lasting=MINUTE, worker="v"
    ),
    "heartbeat": lambda store, scene: store.heartbeat(
        [scene.held, scene.child], lasting=timedelta(minutes=20), progress={scene.held.task_id: 0.5}
    ),
    "checkpoint": lambda store, scene: store.checkpoint(Checkpoint(scene.held, "step", 1, usage=SPENT)),
    "checkpoint, another result": lambda store, scene: store.checkpoint(
        Checkpoint(scene.held, "step", 2, usage=[*SPENT, *SPENT])
    ),
    "checkpoint, move": lambda store, scene: store.checkpoint(Checkpoint(scene.split, "step", 1, "ONWARDS")),
    "record": lambda store, scene: store.record(scene.held, "seen", "step", {"n": 1}),
    "settle, done": ends(Done(1), "held"),
    "settle, other result": ends(Done(2), "held"),
    "settle, failed": ends(Failed("Fatal", "no"), "held"),
    "settle, failed in a step": ends(Failed("Transient", "busy", step="step", retry_after=MINUTE), "held"),
    "settle, limited": ends(Failed("RateLimited", "slow", retry_after=MINUTE), "held"),
    "settle, later": ends(Later(), "held"),
    "settle, cancelled": ends(Cancelled(), "asked"),
    "settle, asked done": ends(Done(1), "asked"),
    "settle, moved": ends(Moved("JOIN"), "split"),
    "settle, moved to rest": ends(Moved("REST", delay=MINUTE), "split"),
    "settle, split failed": ends(Failed("Fatal", "no"), "split"),
    "settle, last done": ends(Done(1), "last"),
    "settle, last failed": ends(Failed("Fatal", "no"), "last"),
    "settle, child failed": ends(Failed("Fatal", "no"), "child"),
    "settle, child and held": ends(Done(1), "child", "held"),
    "settle, held and child failed": ends(Failed("Fatal", "no"), "held", "child"),
    "settle, last and split": ends(Done(1), "last", "split"),
    "complete": completes("held", events=False),
    "complete, events": completes("held", events=True),
    "complete, list": completes("held", "child", "last", events=True),
    "turn": lambda store, scene: store.settle_and_claim(
        [(scene.held, Done(1))], ["default"], 9, lasting=MINUTE, worker="w"
    ),
    "mark_lost": lambda store, scene: store.mark_lost([scene.held, scene.child]),
    "release_leases": lambda store, scene: store.release_leases("w", [scene.last.task_id]),
    "cancel, held": cancels("held"),
    "cancel, gatherer": cancels("gatherer"),
    "cancel, split": cancels("split"),
    "cancel, dependent": cancels("dependent"),
    "cancel, limited": cancels("limited"),
    "cancel, ready": cancels("ready"),
    "cancel, draft": cancels("draft"),
    "act": lambda store, scene: store.act(scene.draft, "upload_urls"),
    "retry": lambda store, scene: store.retry(scene.dead, by="ada"),
    "retry, another payload": lambda store, scene: store.retry(scene.dead, None, {"edited": True}, "bob"),
    "retry_dependents": lambda store, scene: store.retry_dependents(scene.dead, by="ada"),
    "retry_dependents, lost": lambda store, scene: store.retry_dependents(scene.lost, by="bob"),
    "bulk, cancel": bulk("cancel"),
    "bulk, cancel held": bulk("cancel", name="held"),
    "bulk, cancel queued": bulk("cancel", state="Queued"),
    "bulk, retry": bulk("retry"),
    "inbox_retry": lambda store, scene: store.inbox.retry(scene.entry, "ada"),
    "inbox_retry, another payload": lambda store, scene: store.inbox.retry(
        scene.entry, "bob", payload={"edited": True}
    ),
    "inbox_bulk": lambda store, scene: store.inbox.bulk("retry", "eve", which=EntryFilter(category="Fatal")),
    "inbox_bulk, ids": lambda store, scene: store.inbox.bulk("discard", "eve", ids=[scene.entry]),
    "inbox_bulk, dry": lambda store, scene: store.inbox.bulk("retry", "eve", ids=[scene.entry], dry_run=True),
    "resolve": lambda store, scene: store.inbox.resolve(scene.entry, "bob"),
    "discard": lambda store, scene: store.inbox.discard(scene.entry, "eve"),
    "sweep": lambda store, scene: store.sweep(),
    "hello": lambda store, scene: store.hello("v", label="v", queues=["default"], names=["unknown"], slots=9),
    "hello, again": lambda store, scene: store.hello("w", label="w2", queues=["default"], names=None, slots=1),
    "idle": lambda store, scene: store.idle("w"),
    "goodbye": lambda store, scene: store.goodbye("w"),
    "make_queue": lambda store, scene: store.make_queue("fresh"),
    "pause_queue": lambda store, scene: store.pause_queue("default", "ada"),
    "resume_queue": lambda store, scene: store.resume_queue("default"),
    "limit_concurrency": lambda store, scene: store.limit_concurrency("k", 3),
    "set_budget": lambda store, scene: store.set_budget("b", 1, MINUTE),
    "spend": lambda store, scene: store.spend("b", 1),
    "spend, all": lambda store, scene: store.spend("b", 2),
    "block_budget": lambda store, scene: store.block_budget("b", scene.now + timedelta(hours=1)),
    "set_price": lambda store, scene: store.costs.set_price("m", 100, 0),
    "set_price, another": lambda store, scene: store.costs.set_price("m", 200, 0, by="ada"),
    "make_key": lambda store, scene: made_key(store),
    "revoke_key": lambda store, scene: store.keys.revoke(scene.key),
    "declare": lambda store, scene: store.declare(NEW_TREE),
}

PARTITIONS: dict[str, Verb] = {
    "make_partitions": lambda store, scene: store.make_partitions(0),
    "make_partitions, tomorrow": lambda store, scene: store.make_partitions(1),
}
"""Makes tables, which is done once: it meets a few of the others and not all."""


async def made_key(store: Store) -> object:
    """Its id: the secret is another each time."""
    return (await store.keys.make("bob", ["worker"])).id
