"""A lifecycle in the database is held to the same law there, and never changes under a task in flight."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from holdfast.engine.lifecycle.model import Backoff
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Moved, Submission
from holdfast.errors import DeclarationConflict, StateUnknown
from holdfast.lifecycles import LIFECYCLES
from holdfast.testing import Clock, Database
from tests.promises.test_bad_input import groups
from tests.promises.test_lifecycle import CHECKING, SECOND, SECONDS, leading, review


async def test_the_database_gives_back_what_was_declared(store: Store) -> None:
    assert {one.name: one for one in await store.lifecycles()} == {one.name: one for one in LIFECYCLES}


def declared(database: Database, name: str = "review") -> list[int]:
    """The versions that are written down; nothing of the others is left over."""
    assert not database.ask_owner(
        "select count(*) from holdfast.state s left join holdfast.lifecycle l on l.id = s.lifecycle where l.id is null"
    )
    versions = database.ask_owner(
        "select array_agg(version::int order by version) from holdfast.lifecycle where name = $1", name
    )
    return versions or []


LATER = review(CHECKING, SECOND, start="CHECKING", queue="default", version=1)
STRICTER = review(replace(CHECKING, moves=leading(done="DONE")), start="CHECKING", queue="default", version=2)


async def test_saying_the_same_again_changes_nothing(database: Database, store: Store) -> None:
    assert await store.declare(review()) == await store.declare(review()) == 1
    assert declared(database) == [1]


async def test_saying_the_same_again_uses_nothing_up(database: Database, store: Store) -> None:
    """Every process declares at each start; a number that is spent each time would run out one day."""
    await store.declare(review())
    database.ask_owner("select setval(pg_get_serial_sequence('holdfast.lifecycle', 'id'), 32767)")
    assert await store.declare(review()) == 1


async def test_a_version_that_nobody_used_may_still_change(database: Database, store: Store) -> None:
    await store.declare(LATER)
    await store.declare(replace(STRICTER, version=1))
    assert declared(database) == [1]
    await store.submit(Submission(lifecycle="review"))
    lease = (await store.claim(["default"], lasting=SECONDS, worker="w"))[0]
    with pytest.raises(StateUnknown):
        await store.finish(lease, Moved("SECOND"))
    assert (await store.finish(lease, Done())).state == "DONE"


@pytest.mark.parametrize(
    ("change", "named"),
    [({"max_attempts": 4}, "max_attempts"), ({"states": STRICTER.states}, "states"), ({"queue": "desk"}, "queue")],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_version_in_use_does_not_change(
    database: Database, store: Store, change: Mapping[str, Any], named: str
) -> None:
    await store.declare(LATER)
    await store.submit(Submission(lifecycle="review"))
    with pytest.raises(DeclarationConflict, match=rf"Version 1 of review .*: {named}\.") as caught:
        await store.declare(replace(LATER, **change))
    assert "version to 2" in caught.value.fix
    assert (declared(database), await store.declare(LATER)) == ([1], 1)
    assert await store.declare(replace(LATER, version=2, **change)) == 2
    with pytest.raises(DeclarationConflict) as caught:
        await store.declare(replace(LATER, **change))
    assert "version to 3" in caught.value.fix


async def test_tasks_in_flight_keep_their_version_and_new_ones_take_the_newest(
    database: Database, store: Store
) -> None:
    await store.declare(LATER)
    await store.submit(Submission("old", lifecycle="review"), Submission("old", lifecycle="review"))
    old, other = await store.claim(["default"], 2, lasting=SECONDS, worker="w")
    assert await store.declare(STRICTER) == 2
    assert await store.declare(LATER) == 1
    assert declared(database) == [1, 2]
    await store.submit(Submission("new", lifecycle="review"))
    new = (await store.claim(["default"], lasting=SECONDS, worker="w"))[0]
    assert [(await store.read(one.task_id))["lifecycle_version"] for one in (old, other, new)] == [1, 1, 2]
    with pytest.raises(StateUnknown):
        await store.finish(new, Moved("SECOND"))
    assert await store.keep(old, to="SECOND") is None
    assert (await store.finish(old, Done())).state == "DONE"
    assert (await store.finish(other, Moved("SECOND"))).state == "SECOND"
    assert (await store.finish(new, Failed("Fatal", "no"))).state == "BROKEN"
    assert await store.cancel(other.task_id) == "cancelled"
    assert await store.verify() == []


async def test_a_task_may_fail_as_often_as_its_lifecycle_says(store: Store, clock: Clock) -> None:
    hourly = Backoff(timedelta(hours=1), timedelta(days=1))
    await store.declare(review(SECOND, start="SECOND", queue="default", max_attempts=50, backoff=hourly))
    await store.submit(Submission(lifecycle="review"))
    for attempt in range(1, 51):
        lease = (await store.claim(["default"], lasting=SECONDS, worker="w"))[0]
        state = (await store.finish(lease, Failed("Transient", "again"))).state
        assert state == ("BROKEN" if attempt == 50 else "SECOND")
        clock.advance(days=2)


async def test_a_crowd_that_declares_at_once_agrees_on_one(database: Database) -> None:
    variants = [replace(LATER, max_attempts=number) for number in (3, 4, 3, 5, 3, 4)]
    async with contextlib.AsyncExitStack() as stack:
        stores = [Store(await stack.enter_async_context(database.connect())) for _ in variants]
        for _ in range(3):
            answers = await asyncio.gather(*(one.declare(given) for one, given in zip(stores, variants, strict=True)))
            assert set(answers) == {1}
            assert declared(database) == [1]
        await stores[0].submit(Submission(lifecycle="review"))
        agreed = next(one for one in await stores[0].lifecycles() if one.name == "review").max_attempts
        outcomes = await asyncio.gather(
            *(one.declare(given) for one, given in zip(stores, variants, strict=True)), return_exceptions=True
        )
    assert [one == 1 for one in outcomes] == [given.max_attempts == agreed for given in variants]
    assert all(isinstance(one, DeclarationConflict) for one in outcomes if one != 1)


# Definitions that did not come from Python: a path into a sound one, or after a * a word that is replaced everywhere;
# and what is put there.
GONE = "nothing"
BY_HAND: dict[str, list[Any]] = {
    "name": [GONE, "", "Two words", 5, {}, "ab" * 5_000],
    "version": [GONE, 0, -1, 40_000, 10**10, 10**30, 1.5, "one", True, [], None],
    "start": [GONE, "NOWHERE", "DONE", None, {}],
    "blocked": ["NOWHERE", {}],
    "queue": [GONE, "", "two words", {}, "a" * 101],
    "max_attempts": [GONE, 0, -1, 10**10, 1.5, "many", {}],
    "crash_budget": [GONE, 0, -1, "many"],
    "backoff_seconds": [GONE, 0, -1, 7200, 1e300, "soon", "NaN", "Infinity"],
    "backoff_most_seconds": [GONE, 0.5, "late"],
    "rate_wait_seconds": [GONE, 0, -1, "soon"],
    "effects": ["nobody", "", "now", "a'b", {}],
    "states": [GONE, [], {}, "x", 5, None, [1], [[]], [None], [{}]],
    "states.0.name": [GONE, None, 5],
    "*DRAFT": ["", "Two words", "é"],
    "states.0.actor": [GONE, "robot", None, 5, "nobody", "clock", "tasks"],
    "states.0.moves": [GONE, [], "x", 5, {"hand_in": "CHECKING"}],
    "states.0.moves.cancel": [GONE, "DONE", "NOWHERE", None],
    "states.0.moves.hand_in": ["NOWHERE", {"to": "CHECKING"}, None],
    "states.0.moves.limit": ["CHECKING"],
    "states.0.limit.seconds": [0, -1, "soon", 1e300],
    "states.0.limit.to": ["NOWHERE", {}],
    "states.0.limit.renewed_up_to_seconds": [1, "long"],
    "states.0.limit.per_task": ["maybe", {}],
    "states.0.display": [{"label": "\0"}, {"label": "\ud800"}],
    "states.1.moves.fail": [GONE, "DONE", "DROPPED"],
    "states.1.moves.claim": ["DRAFT", "DONE"],
    "states.2.name": ["CHECKING"],
    "states.3.outcome": [GONE, "great", None, 5],
    "states.3.moves": [{"on": "DONE"}],
    "states.3.limit": [{"seconds": 9, "to": "BROKEN"}],
}
JUNK = ["[]", "null", '"x"', "5", "true", "{}", "[[[[]]]]", '{"name": {"name": "x"}}', '{"version": "x"}', None]


def by_hand(path: str, value: object) -> str:
    """A sound definition as JSON text, with one thing changed."""
    definition: Any = json.loads(json.dumps(review().definition()))
    if path.startswith("*"):
        return json.dumps(definition).replace(path[1:], str(value))
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    there = definition
    for part in way:
        there = there[part]
    there[last] = value
    if value is GONE:
        del there[last]
    return json.dumps(definition)


UNLAWFUL: dict[str, str] = {
    f"{path} {value!r:.20}": by_hand(path, value) for path, values in BY_HAND.items() for value in values
}


def written(database: Database) -> Any:
    return database.ask_owner(
        "select array[(select count(*) from holdfast.lifecycle), (select count(*) from holdfast.state),"
        " (select count(*) from holdfast.transition), (select count(*) from holdfast.queue)]"
    )


@pytest.mark.parametrize("definitions", groups(UNLAWFUL | {str(junk): junk for junk in JUNK}))
async def test_a_definition_written_by_hand_is_held_to_the_same_law(
    database: Database, definitions: dict[str, str | None]
) -> None:
    before = written(database)
    async with database.connect() as connection:
        for name, definition in definitions.items():
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.fetchval("select holdfast.declare($1)", definition)
            error = caught.value
            assert (error.sqlstate, bool(error.message), bool(error.hint)) == ("TK021", True, True), name
            assert written(database) == before, name
        assert await Store(connection).declare(review()) == 1


async def test_a_definition_nested_without_end_is_refused_before_it_is_read(database: Database) -> None:
    before = written(database)
    async with database.connect() as connection:
        with pytest.raises(asyncpg.exceptions.StatementTooComplexError):
            await connection.fetchval("select holdfast.declare($1)", "[" * 100_000 + "]" * 100_000)
        assert written(database) == before
        assert await Store(connection).declare(review()) == 1


LISTED = {
    "without blocked": by_hand("blocked", GONE),
    "without display": by_hand("states.0.display", GONE),
    "with more": by_hand("more", 1),
    "with depth": by_hand("more", "DEPTH").replace('"DEPTH"', "[" * 3_000 + "]" * 3_000),
}


@pytest.mark.parametrize("definitions", groups(LISTED))
async def test_whatever_was_declared_can_be_listed(
    database: Database, store: Store, definitions: dict[str, str]
) -> None:
    async with database.connect() as connection:
        for definition in definitions.values():
            with contextlib.suppress(asyncpg.PostgresError):  # or it is refused at once
                await connection.fetchval("select holdfast.declare($1)", definition)
            assert len(await store.lifecycles()) >= len(LIFECYCLES)
