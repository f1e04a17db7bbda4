"""A key lets in whoever has it until it is revoked; the database could not give it away."""

from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.errors import KeyUnknown, RequestInvalid
from holdfast.testing import Database


async def test_a_key_counts_until_it_is_revoked(store: Store) -> None:
    assert await store.keys.check(None) == (None, False)
    key = await store.keys.make("ada", ["user"])
    assert await store.keys.check(key.secret) == (Principal("ada", frozenset({"user"}), "ada"), True)
    assert await store.keys.check(None) == (None, True)
    for wrong in ("", "hf_", key.secret + "x", key.secret[:-1], key.secret[:-1] + "~", "hf_" + "A" * 43, "\0", "ä"):
        assert await store.keys.check(wrong) == (None, True)
    await store.keys.revoke(key.id)
    await store.keys.revoke(key.id)
    assert await store.keys.check(key.secret) == (None, False)
    (kept,) = await store.keys.all()
    assert (kept.name, kept.roles, kept.revoked_at is None) == ("ada", ["user"], False)


async def test_the_key_itself_is_kept_nowhere(store: Store, database: Database) -> None:
    key = await store.keys.make("ci", ["worker", "operator"], owner="team")
    assert key.secret not in repr(key)
    row = str(database.ask_owner("select k::text from holdfast.api_key k"))
    assert key.secret not in row
    assert key.secret.encode().hex() not in row


async def test_keys_that_make_no_sense_are_refused(store: Store) -> None:
    for name, roles in (("", ["user"]), ("a", []), ("a", ["root"]), ("a" * 201, ["user"]), ("a\0", ["user"])):
        with pytest.raises(RequestInvalid):
            await store.keys.make(name, roles)  # type: ignore[arg-type]
    with pytest.raises(KeyUnknown):
        await store.keys.revoke(UUID(int=0))
