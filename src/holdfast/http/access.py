"""Who may call which route.

A route names the roles it is for with `needs("user", "operator")`; its class `Guarded` asks before it reads anything of
the body, and refuses query parameters that the route does not have. Bound to loopback, with no key made yet, each
caller is the local principal with all roles; from the first key on, requests need one. Nothing is kept between
requests: a revoked key is refused at once, by every server.
"""

import ipaddress
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import LOCAL, ROLES, Principal, Role
from holdfast.errors import BodyTooLarge, KeyRefused, RoleMissing, SettingInvalid
from holdfast.http.problem import PROBLEMS

# A payload has 64 KiB at most; written with nothing but escapes, such as \u00e9, it is three times as long.
body_most_bytes = 256 * 1024
long_body_most_bytes = 2 * 1024 * 1024
many_most_bytes = 16 * 1024 * 1024
brackets_most = 100_000  # what is parsed keeps everybody else waiting: a tenth of a second would be too long


class Guard:
    """Tells who calls."""

    def __init__(self, store: Store, *, loopback: bool) -> None:
        self.store = store
        self.loopback = loopback

    async def identify(self, request: Request) -> Principal:
        """Who calls. Raises KeyRefused."""
        known: Principal | None = getattr(request.state, "principal", None)
        if known:
            return known
        request.state.principal = principal = await self.ask(request)
        return principal

    async def ask(self, request: Request) -> Principal:
        """Who calls, asked again: for an answer that takes so long that the key may be revoked. Raises KeyRefused."""
        given = request.headers.get("authorization")
        scheme, _, secret = (given or "").partition(" ")
        principal, any_key = await self.store.keys.check(secret.strip() if scheme.lower() == "bearer" else None)
        if given is None and self.loopback and not any_key:
            principal = LOCAL
        if principal is None:
            raise KeyRefused(fix="Send `Authorization: Bearer hf_...`; `holdfast keys create` makes a key.")
        return principal


class Needs:
    """That the caller has one of these roles."""

    def __init__(self, roles: tuple[Role, ...]) -> None:
        self.roles = frozenset(roles)

    async def __call__(self, request: Request) -> Principal:
        guard: Guard = request.app.state.guard
        principal = await guard.identify(request)
        if not self.roles & principal.roles:
            needed = " or ".join(role for role in ROLES if role in self.roles)
            raise RoleMissing(f"This is for the role {needed}.", fix="`holdfast keys create --role ...` makes a key.")
        return principal


def needs(*roles: Role) -> Any:
    """What a route declares to be for these roles only; as a parameter it is the caller."""
    return Depends(Needs(roles))


def all_of(dependant: Dependant) -> Iterator[Dependant]:
    """What a route depends on, and what that depends on."""
    yield dependant
    for one in dependant.dependencies:
        yield from all_of(one)


User = Annotated[Principal, needs("user")]
UserOrOperator = Annotated[Principal, needs("user", "operator")]
Operator = Annotated[Principal, needs("operator")]


class Guarded(APIRoute):
    """A route that asks who calls before it reads the body, which is JSON, whatever it is called, and not long."""

    most_bytes = body_most_bytes

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        dependants = list(all_of(self.dependant))
        asked = [one.call for one in dependants if isinstance(one.call, Needs)]
        known = frozenset(field.alias for one in dependants for field in one.query_params)

        async def guarded(request: Request) -> Response:
            for need in asked:
                await need(request)
            refuse_unknown(request, known)
            if self.body_field:
                await read_json(request, self.most_bytes)
            return await handle(request)

        return guarded


class GuardedLong(Guarded):
    """The same, for results: they may be long."""

    most_bytes = long_body_most_bytes


class GuardedMany(Guarded):
    """The same, for bodies about many tasks at once."""

    most_bytes = many_most_bytes


def make_router(
    prefix: str, tag: str, *roles: Role, guard: type[Guarded] = Guarded, in_schema: bool = True
) -> APIRouter:
    """The router of one subject; its routes describe how they refuse. With `roles`, all of them are for these only."""
    return APIRouter(
        prefix=prefix, tags=[tag], route_class=guard, dependencies=[needs(*roles)] if roles else [],
        responses=PROBLEMS, include_in_schema=in_schema,
    )  # fmt: skip


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise RequestValidationError for query parameters that the route does not have: a filter must not be missed."""
    there_are = f"There are: {', '.join(sorted(known))}." if known else "There are none."
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        message = f"There is no such parameter. {there_are}"
        raise RequestValidationError([{"loc": ("query", name), "msg": message} for name in unknown])


async def read_json(request: Request, most_bytes: int) -> None:
    """Read the body, up to the most there may be, and call it JSON. Raises BodyTooLarge."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise BodyTooLarge(f"At most {most_bytes} bytes are read.", fix="Put files where files live.")
        parts.append(part)
    request._body = body = b"".join(parts)
    if body.count(b"[") + body.count(b"{") > brackets_most:
        raise BodyTooLarge(f"At most {brackets_most} lists and objects are read.", fix="Put files where files live.")
    kept = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
    request.scope["headers"] = [*kept, (b"content-type", b"application/json")]
    if hasattr(request, "_headers"):
        del request._headers


def owned_by(principal: Principal) -> str | None:
    """Whose tasks the caller sees: an operator all, anybody else their own."""
    return None if "operator" in principal.roles else principal.owner


async def check_visible(store: Store, principal: Principal, task_id: UUID) -> None:
    """Raise TaskNotFound for a task that is not the caller's, just as for one that is not there."""
    await store.owner_of(task_id, owned_by(principal))


async def find_visible(request: Request, caller: UserOrOperator, task_id: UUID) -> UUID:
    """The task of a route, which the caller may see. Raises TaskNotFound."""
    await check_visible(request.app.state.guard.store, caller, task_id)
    return task_id


VisibleTask = Annotated[UUID, Depends(find_visible)]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def refuse_open_server(store: Store, host: str) -> None:
    """Raise SettingInvalid where other machines could call without a key."""
    if not is_loopback(host) and not (await store.keys.check(None))[1]:
        raise SettingInvalid(
            f"HOLDFAST_HOST={host} would serve to other machines, and there is no key to ask for.",
            fix="Make one first: holdfast keys create NAME --role operator",
        )
