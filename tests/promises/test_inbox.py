"""The inbox: what failed for good is found, seen in groups, and handled once."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.store.inbox import Entry, EntryFilter
from holdfast.engine.task import Failed
from holdfast.errors import MoveRefused, RequestInvalid, StepUnknown, TaskNotFound
from holdfast.testing import Clock, Database
from tests.promises.stage import submit, until_somebody_waits_for_a_lock

MISSING = UUID("01b8dac5-b400-730f-8c80-71bbed710aed")


@pytest.fixture
async def owner(database: Database) -> AsyncIterator[asyncpg.Connection]:
    async with database.connect_owner() as connection:
        yield connection


async def fail(
    store: Store, clock: Clock, name: str = "work", message: str = "no", *, category: Any = "Fatal", **options: Any
) -> UUID:
    """A task that did one step and failed in the next; a second before what comes after it. The entry's id."""
    task = await submit(store, name, **options)
    (lease,) = await store.claim_these([task], lasting=timedelta(minutes=1), worker="w")
    await store.keep(lease, "fetched", {"bytes": 3})
    await store.finish(lease, Failed(category, message, step="extracted"))
    clock.advance(seconds=1)
    (entry,) = await store.inbox.newest(limit=1)
    return UUID(str(entry["id"]))


async def ids(store: Store, which: EntryFilter | None = None, **options: Any) -> list[UUID]:
    return [entry.id for entry in (await store.inbox.page(which or EntryFilter(), **options)).items]


async def steps(store: Store, task: UUID) -> list[str]:
    return [step.name for step in await store.steps(task)]


# Seen


async def test_an_entry_tells_what_failed_where_and_whose_it_was(store: Store, clock: Clock) -> None:
    entry = await fail(store, clock, "ingest", "not a PDF", owner="ada", payload={"doc": "a"})
    (seen,) = (await store.inbox.page()).items
    assert seen == Entry(
        entry, seen.task_id, "dispatch", "ingest", "ada", "Running", "extracted", "Fatal", seen.signature, "not a PDF",
        clock.now() - timedelta(seconds=1), None, None, None, None, None, None,
    )  # fmt: skip
    whole = await store.inbox.entry(entry)
    assert whole.task and whole.task["state"] == "Dead"  # noqa: PT018
    assert whole.payload == {"doc": "a"}
    assert whole.error == {"category": "Fatal", "message": "not a PDF", "step": "extracted"}
    assert [(step["name"], step["done"]) for step in whole.steps] == [("fetched", True), ("extracted", False)]
    with pytest.raises(TaskNotFound):
        await store.inbox.entry(MISSING)


async def test_failures_that_are_alike_are_one_group(store: Store, clock: Clock) -> None:
    first = clock.now()
    for page in range(3):
        newest = await fail(store, clock, message=f"Page {page} of /tmp/{page}.pdf")
    other = await fail(store, clock, "mail", "bounced", owner="ada", category="SchemaInvalid")
    mail, work = await store.inbox.groups()
    assert (mail.name, mail.category, mail.number, mail.newest) == ("mail", "SchemaInvalid", 1, other)
    assert (work.lifecycle, work.name, work.step, work.category) == ("dispatch", "work", "extracted", "Fatal")
    assert (work.number, work.capped, work.newest, work.message) == (3, False, newest, "Page 2 of /tmp/2.pdf")
    assert (work.first_at, work.last_at) == (first, first + timedelta(seconds=2))
    await store.inbox.resolve(newest, "ada")
    (work,) = await store.inbox.groups(EntryFilter(signature=work.signature))
    assert (work.number, work.message) == (2, "Page 1 of /tmp/1.pdf")


@pytest.mark.parametrize("field", ["signature", "category", "lifecycle", "name", "step", "owner"])
async def test_groups_and_items_go_by_every_filter(store: Store, clock: Clock, field: str) -> None:
    await fail(store, clock, "work", "no", owner="ada")
    task = await submit(store, "mail", lifecycle="pipeline", owner="bob")
    (lease,) = await store.claim_these([task], lasting=timedelta(minutes=1), worker="w")
    await store.finish(lease, Failed("SchemaInvalid", "other", step="sent"))
    for entry in (await store.inbox.page()).items:
        which = EntryFilter(**{field: getattr(entry, field)})
        assert await ids(store, which) == [entry.id]
        assert [group.newest for group in await store.inbox.groups(which)] == [entry.id]
    nothing = EntryFilter(**{field: "nothing"})
    assert (await ids(store, nothing), await store.inbox.groups(nothing)) == ([], [])


async def test_a_group_of_many_owners_counts_those_of_one(store: Store, clock: Clock) -> None:
    for name in ("ada", "bob", "ada", "bob", "bob"):
        await fail(store, clock, owner=name)
    assert [group.number for group in await store.inbox.groups(EntryFilter(owner="ada"))] == [2]
    assert [group.number for group in await store.inbox.groups()] == [5]


async def test_items_go_page_by_page(store: Store, clock: Clock) -> None:
    made = [await fail(store, clock) for _ in range(5)]
    await store.inbox.discard(made[2], "ada")
    page = await store.inbox.page(limit=2)
    assert (page.approx_count, page.capped, page.next) == (4, False, made[3])
    rest = await store.inbox.page(limit=2, cursor=page.next)
    assert ([*page.items, *rest.items], rest.next) == ((await store.inbox.page()).items, None)
    assert await ids(store) == [made[4], made[3], made[1], made[0]]
    assert await ids(store, handled="handled") == [made[2]]
    assert await ids(store, handled="all") == made[::-1]
    for wrong in ({"handled": "maybe"}, {"limit": 0}, {"limit": 1001}):
        with pytest.raises(RequestInvalid):
            await store.inbox.page(**wrong)


async def test_an_entry_is_found_by_the_beginning_of_its_id_or_its_tasks(store: Store, clock: Clock) -> None:
    first, second = await fail(store, clock), await fail(store, clock)
    task = (await store.inbox.entry(second)).task_id
    assert await store.inbox.find(str(second)) == [(second, task, True)]
    assert await store.inbox.find(str(task).upper()) == [(second, task, True)]
    assert {entry for entry, _, _ in await store.inbox.find("0")} == {first, second}
    await store.inbox.resolve(second, "ada")
    assert await store.inbox.find(str(task)) == [(second, task, False)]
    assert await store.inbox.find(str(MISSING)) == []
    with pytest.raises(RequestInvalid):
        await store.inbox.find("x")


async def test_a_flood_of_failures_hides_no_other(store: Store, owner: asyncpg.Connection, clock: Clock) -> None:
    other = await fail(store, clock, "rare")
    await owner.execute(
        "insert into holdfast.inbox (task_id, category, signature, name)"
        " select gen_random_uuid(), 'Fatal', case when n > 10100 then 'one ' || n else 'flood' end, 'flood'"
        " from generate_series(1, 12200) n"
    )
    clock.advance(seconds=1)
    newest = await fail(store, clock, "new")
    groups = await store.inbox.groups(limit=1000)
    assert groups[0].newest == newest
    flood = next(group for group in groups if group.signature == "flood")
    assert (flood.number, flood.capped) == (10_000, True)
    assert [group.newest for group in await store.inbox.groups(EntryFilter(lifecycle="dispatch"))] == [newest, other]
    page = await store.inbox.page()
    assert (len(page.items), page.approx_count, page.capped) == (50, 10_000, True)


# Handled


async def test_a_retry_of_an_entry_is_a_new_task_and_the_entry_tells_of_it(store: Store, clock: Clock) -> None:
    entry = await fail(store, clock, payload={"doc": "a"})
    new = await store.inbox.retry(entry, "ada", note="mended")
    old = await store.inbox.entry(entry)
    assert (old.resolution, old.resolved_by, old.resolved_at) == ("retried", "ada", clock.now())
    assert (old.retried_as, old.note, old.diff) == (new, "mended", None)
    assert (await store.read(new))["retry_of"] == str(old.task_id)
    assert await steps(store, new) == ["fetched"]
    events = [(event.kind, event.step, event.data) for event in await store.step_events(new)]
    change = {"from": str(old.task_id), "by": "ada", "from_step": None, "diff": None}
    assert events == [("requeued", "", change), ("step_inherited", "fetched", {"from": str(old.task_id)})]
    assert await store.verify() == []


async def test_what_was_made_from_another_payload_is_not_inherited(store: Store, clock: Clock) -> None:
    entry = await fail(store, clock, payload={"doc": "a", "keep": 1})
    new = await store.inbox.retry(entry, "ada", payload={"doc": "b", "keep": 1})
    diff = [{"path": "/doc", "before": "a", "after": "b"}]
    assert (await store.inbox.entry(entry)).diff == diff
    assert await steps(store, new) == []
    (requeued,) = await store.step_events(new)
    assert requeued.data["diff"] == diff
    same = await store.retry((await store.inbox.entry(entry)).task_id, payload={"keep": 1, "doc": "a"})
    assert await steps(store, same) == ["fetched"]
    edited = await store.retry((await store.inbox.entry(entry)).task_id, "extracted", {"doc": "c"})
    assert await steps(store, edited) == ["fetched"]


async def test_the_general_retry_leaves_the_same_trace(store: Store, clock: Clock) -> None:
    entry = await fail(store, clock, payload={"doc": "a"})
    new = await store.retry((await store.inbox.entry(entry)).task_id, payload={"doc": "b"}, by="ada")
    seen = await store.inbox.entry(entry)
    assert (seen.resolution, seen.resolved_by, seen.retried_as) == ("retried", "ada", new)
    assert seen.diff == [{"path": "/doc", "before": "a", "after": "b"}]
    again = await store.retry(seen.task_id, by="bob")
    assert again != new
    assert (await store.inbox.entry(entry)).retried_as == new


async def test_an_entry_is_handled_once_and_says_by_whom(store: Store, clock: Clock) -> None:
    for how, verb in {"retried": "retry", "resolved": "resolve", "discarded": "discard"}.items():
        entry = await fail(store, clock)
        await getattr(store.inbox, verb)(entry, "ada")
        tasks = (await store.list_tasks()).approx_count
        for again in (
            store.inbox.retry(entry, "bob"),
            store.inbox.resolve(entry, "bob"),
            store.inbox.discard(entry, "bob"),
        ):
            with pytest.raises(MoveRefused) as refused:
                await again
            assert f"was {how} by ada at 2030-01-01" in refused.value.detail
        seen = await store.inbox.entry(entry)
        assert (seen.resolution, seen.resolved_by) == (how, "ada")
        assert (await store.list_tasks()).approx_count == tasks


async def test_what_cannot_be_retried_stays_open(store: Store, clock: Clock, owner: asyncpg.Connection) -> None:
    entry = await fail(store, clock)
    with pytest.raises(StepUnknown):
        await store.inbox.retry(entry, "ada", from_step="nope")
    with pytest.raises(TaskNotFound):
        await store.inbox.retry(MISSING, "ada")
    for wrong in ("", "x" * 201):
        with pytest.raises(RequestInvalid):
            await store.inbox.retry(entry, wrong)
        with pytest.raises(RequestInvalid):
            await store.inbox.resolve(entry, wrong)
    assert await ids(store) == [entry]
    await owner.execute("set session_replication_role = replica")
    await owner.execute("delete from holdfast.task_done")
    with pytest.raises(TaskNotFound):
        await store.inbox.retry(entry, "ada")
    forgotten = await store.inbox.entry(entry)
    assert (forgotten.task, forgotten.name) == (None, "work")
    await store.inbox.discard(entry, "ada")


@pytest.mark.parametrize("second", ["retry", "resolve", "discard", "bulk"])
async def test_two_operators_at_once_make_one_task(
    store: Store, database: Database, clock: Clock, owner: asyncpg.Connection, second: str
) -> None:
    entry = await fail(store, clock)
    before = (await store.list_tasks()).approx_count
    async with database.connect() as first, database.connect() as other:
        transaction = first.transaction()
        await transaction.start()
        await Store(first).inbox.retry(entry, "ada")
        rival = Store(other)
        asked = asyncio.create_task(
            rival.inbox.bulk("retry", "bob", ids=[entry]) if second == "bulk"
            else getattr(rival.inbox, second)(entry, "bob")
        )  # fmt: skip
        await until_somebody_waits_for_a_lock(owner)
        await transaction.commit()
        if second == "bulk":
            (refusal,) = (await asked).refused
            assert (refusal.code, "by ada" in refusal.detail) == ("move-refused", True)
        else:
            with pytest.raises(MoveRefused, match="by ada"):
                await asked
    assert (await store.list_tasks()).approx_count == before + 1
    assert (await store.inbox.entry(entry)).resolved_by == "ada"


async def test_of_many_at_once_one_retries(store: Store, clock: Clock) -> None:
    entry = await fail(store, clock, limit_key="k")
    answers = await asyncio.gather(*(store.inbox.retry(entry, f"op{n}") for n in range(8)), return_exceptions=True)
    (made,) = [answer for answer in answers if isinstance(answer, UUID)]
    assert sum(isinstance(answer, MoveRefused) for answer in answers) == 7
    assert (await store.inbox.entry(entry)).retried_as == made


# What was changed


@pytest.mark.parametrize(
    ("before", "after", "diff"),
    [
        ("{}", "{}", "[]"),
        ('{"a": 1}', '{"a": 2}', '[{"path": "/a", "before": 1, "after": 2}]'),
        ('{"a": 1}', '{"b": 1}', '[{"path": "/a", "before": 1}, {"path": "/b", "after": 1}]'),
        ('{"a": null}', "{}", '[{"path": "/a", "before": null}]'),
        ('{"a": {"b": [1, 2]}}', '{"a": {"b": [1, 3, 4]}}',
         '[{"path": "/a/b/1", "before": 2, "after": 3}, {"path": "/a/b/2", "after": 4}]'),
        ('{"a": [1]}', '{"a": {"0": 1}}', '[{"path": "/a", "before": [1], "after": {"0": 1}}]'),
        ('{"a/b": 1, "c~d": 1}', '{"a/b": 2, "c~d": 2}',
         '[{"path": "/a~1b", "before": 1, "after": 2}, {"path": "/c~0d", "before": 1, "after": 2}]'),
        ("1", '"x"', '[{"path": "", "before": 1, "after": "x"}]'),
        ("[]", "{}", '[{"path": "", "before": [], "after": {}}]'),
    ],
    ids=["nothing", "changed", "moved", "null", "nested", "kind", "escaped", "scalar", "whole"],
)  # fmt: skip
def test_a_diff_lists_what_was_changed(database: Database, before: str, after: str, diff: str) -> None:
    found = database.ask_owner("select holdfast.diff($1, $2)", before, after)
    assert json.loads(found) == json.loads(diff)


def test_a_diff_stays_short(database: Database) -> None:
    cut = "holdfast.diff('{}', jsonb_build_object('a', repeat('x', 5000))) #>> '{0, after}'"
    assert database.ask_owner(f"select {cut}") == "x" * 200 + "…"
    many = "select holdfast.diff('[]', (select jsonb_agg(n) from generate_series(1, 1000) n))"
    assert database.ask_owner(f"select jsonb_array_length(d) from ({many} as d) x") == 101
    assert database.ask_owner(f"select (d -> 100 ->> 'more')::int from ({many} as d) x") == 900
    deep = "(repeat('[', 500) || '{}' || repeat(']', 500))::jsonb"
    assert database.ask_owner(f"select jsonb_array_length(holdfast.diff(({deep.format(1)}), ({deep.format(2)})))") == 1
