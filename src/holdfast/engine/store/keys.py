"""Keys: who may call the server, and as what.

A key is 256 random bits and appears once, when it is made; the database keeps its sha256. Nothing is cached: from the
commit that revokes a key on, no server takes it.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls

Role = Literal["user", "worker", "operator"]
ROLES: tuple[Role, ...] = ("user", "worker", "operator")


@dataclass(frozen=True)
class Principal:
    """Who calls: what they may do, and whose tasks are theirs."""

    name: str
    roles: frozenset[Role]
    owner: str = ""


LOCAL = Principal("local", frozenset(ROLES))


@dataclass(frozen=True)
class NewKey:
    """A key that was just made. `secret` is not kept anywhere."""

    id: UUID
    name: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Key:
    """A key as it is kept."""

    id: UUID
    name: str
    roles: Sequence[Role]
    owner: str
    created_at: datetime
    revoked_at: datetime | None


class Keys(Calls):
    """Keys, made and taken back."""

    async def make(self, name: str, roles: Sequence[Role], *, owner: str | None = None) -> NewKey:
        """A new key; tasks it makes are `owner`'s, by default those of its name. Raises RequestInvalid."""
        secret = f"hf_{secrets.token_urlsafe(32)}"
        given = (encode.text(name), list(roles), encode.text(owner), hash_of(secret))
        return NewKey(await self._call("make_key", *given, repeatable=False), name, secret)

    async def check(self, secret: str | None) -> tuple[Principal | None, bool]:
        """Whose key this is, if it counts; and whether any key counts at all."""
        hashed = hash_of(secret) if secret and re.fullmatch(r"hf_[A-Za-z0-9_-]{43}", secret) else None
        row = (await self._table("check_key", hashed))[0]
        known = Principal(row["name"], frozenset(row["roles"]), row["owner"]) if row["id"] else None
        return known, row["any_key"]

    async def all(self) -> list[Key]:
        """All keys, revoked ones too, oldest first."""
        return await self._records(Key, "list_keys")

    async def revoke(self, key: UUID | str) -> None:
        """Refuse this key from now on. Raises KeyUnknown."""
        await self._call("revoke_key", encode.task_id(key))


def hash_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
