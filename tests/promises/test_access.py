"""A key lets in whoever has it until it is revoked; the database could not give it away."""

from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.errors import KeyUnknown, RequestInvalid
from holdfast.testing import Database


async def test_a_key_counts_until_it_is_revoked(store: Store) -> None:
    assert await store.check_key(None) == (None, False)
    key = await store.make_key("ada", ["user"])
    assert await store.check_key(key.secret) == (Principal("ada", frozenset({"user"}), "ada"), True)
    assert await store.check_key(None) == (None, True)
    for wrong in ("", "hf_", key.secret + "x", key.secret[:-1], key.secret[:-1] + "~", "hf_" + "A" * 43, "\0", "ä"):
        assert await store.check_key(wrong) == (None, True)
    await store.revoke_key(key.id)
    await store.revoke_key(key.id)
    assert await store.check_key(key.secret) == (None, False)
    (kept,) = await store.list_keys()
    assert (kept.name, kept.roles, kept.revoked_at is None) == ("ada", ["user"], False)


async def test_the_key_itself_is_kept_nowhere(store: Store, database: Database) -> None:
    key = await store.make_key("ci", ["worker", "operator"], owner="team")
    assert key.secret not in repr(key)
    row = str(database.ask_owner("select k::text from holdfast.api_key k"))
    assert key.secret not in row
    assert key.secret.encode().hex() not in row


async def test_keys_that_make_no_sense_are_refused(store: Store) -> None:
    for name, roles in (("", ["user"]), ("a", []), ("a", ["root"]), ("a" * 201, ["user"]), ("a\0", ["user"])):
        with pytest.raises(RequestInvalid):
            await store.make_key(name, roles)  # type: ignore[arg-type]
    with pytest.raises(KeyUnknown):
        await store.revoke_key(UUID(int=0))
