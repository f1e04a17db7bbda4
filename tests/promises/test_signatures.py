"""Failures that are alike fall into one group, those that are not do not."""

import itertools

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Failed
from holdfast.testing import Database
from tests.promises.stage import submit, take_one

ALIKE = {
    "Page # of <file> is broken": ["Page 17 of /tmp/a.pdf is broken", "Page 3 of b.pdf is broken"],
    "order # is broken": ["order 2f0a77aa11 is broken", "order 17 is broken", "order 17-18/3 is broken"],
    "No such file: '?'": ["No such file: '/data/in/x y.csv'", "No such file: '/srv/b.txt'", "No such file: ''"],
    "Customer \"?\" is unknown": ['Customer "Ada Lovelace" is unknown', 'Customer "A-17" is unknown'],
    "GET https://api.example.com/* failed": [
        "GET https://ada:pw@api.example.com/v1/items/17?key=3 failed", "GET https://api.example.com/ failed",
    ],
    "mail to <mail> bounced": ["mail to ada@example.com bounced", "mail to bob.b+x@mail.example.org bounced"],
    "slow: #s at #Z": ["slow: 12.5s at 2030-01-01T00:00:00.123Z", "slow: 3s at 2031-11-01T10:00:00Z"],
    "id cus_# is gone": ["id cus_9s6XKzkNRiz8i3 is gone", "id cus_1AbCdEfGh2345 is gone", "id cus_17 is gone"],
    "ID # is gone": ["ID 01b8dac5-b400-730f-8c80-71bbed710aed is gone", "ID 01HZX3ABCDEF0123456789ABCD is gone"],
    "rows # are empty": ["rows 1, 2 and 3 are empty", "rows 7 are empty", "rows -7 are empty"],
    "in /srv/* at #": ["in /srv/app/17/a at 0x7f3a2b", "in /srv/other at 0x1"],
    "in C:\\Users/* it": ["in C:\\Users\\ada\\x it", "in C:\\Users\\bob it"],
    "two lines": ["two\n   lines", "two\tlines "],
}  # fmt: skip

APART = [
    "KeyError: 'name'", "KeyError: 'age'", 'Field "total" is missing in "A-17"', 'Field "sum" is missing in "A-17"',
    "No module named 'foo.bar'", "No module named 'foo.baz'", "HTTP 503", "HTTP 404", "exit code: 137", "exit code: 1",
    "[Errno 2] it", "[Errno 13] it", "GET https://a.example/1", "GET https://b.example/1",
    "denied: /etc/x", "denied: /var/x",
    "not found: /users", "not found: /orders", "it isn't there", "it can't be there", "text/html", "application/json",
]  # fmt: skip


@pytest.mark.parametrize("kept", ALIKE)
def test_what_differs_from_task_to_task_is_left_out(database: Database, kept: str) -> None:
    assert {database.ask_owner("select holdfast.normalize_message($1)", one) for one in ALIKE[kept]} == {kept}


def test_what_tells_failures_apart_stays(database: Database) -> None:
    found = [database.ask_owner("select holdfast.normalize_message($1)", one) for one in APART]
    same = [(a, b) for (a, x), (b, y) in itertools.combinations(zip(APART, found, strict=True), 2) if x == y]
    assert same == []


async def test_the_task_the_step_and_the_category_tell_failures_apart(store: Store) -> None:
    for name, outcome in [
        ("mail", Failed("Fatal", "no", step="sent")), ("mail", Failed("Fatal", "no", step="made")),
        ("mail", Failed("SchemaInvalid", "no")), ("mail", Failed("Fatal", "no", code="E1")),
        ("post", Failed("Fatal", "no")), ("post", Failed("Fatal", "no")),
    ]:  # fmt: skip
        await submit(store, name)
        await store.finish(await take_one(store), outcome)
    await submit(store, "post", lifecycle="pipeline")
    await store.finish(await take_one(store, "pipeline"), Failed("Fatal", "no"))
    assert sorted(group.number for group in await store.inbox.groups()) == [1, 1, 1, 1, 1, 2]


NASTY = ["a@", "'", '"', "/a", "a.pd", "1.", "(a-", "://", "0x", "#-", "a1", ".", "\\", "-1", "x@y.", "`", "\x01", "é"]


async def test_no_message_holds_up_who_settles_it(database: Database) -> None:
    async with database.connect_owner() as owner:
        await owner.execute("set statement_timeout = '60s'")
        query = "select holdfast.signature('l', 'n', jsonb_build_object('message', repeat($1, 20000)))"
        assert max([len(await owner.fetchval(query, sign)) for sign in NASTY]) <= len("l · n · ") + 200
