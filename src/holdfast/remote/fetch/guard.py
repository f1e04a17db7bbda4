"""The guard: which addresses of the network a document may be fetched from.

A caller that names a document chooses where this machine connects to, so only what the whole world can reach is
asked: no loopback, no private network, no metadata service of a cloud. A name is resolved once, every address it has
must be fit, and the connection goes to one of just these: an answer that changes meanwhile changes nothing.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from holdfast.errors import Fatal, Transient

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

resolve_seconds = 10.0
NAME = re.compile(r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(
    r"(.*\.)?([0-9]+|0x[0-9a-f]*)"
)  # some resolvers take these for addresses: 2130706433, 127.1, 0x7f.1

# By the registries of special-purpose addresses; ipaddress.is_global differs between releases of Python.
SPECIAL_V4 = [
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # public by its number, but what Azure tells its own machines
    )
]  # fmt: skip
PUBLIC_V6 = IPv6Network("2000::/3")
SPECIAL_V6 = [ip_network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20")]
HOW = "An operator allows networks besides, with commas between: HOLDFAST_FETCH_ALLOW=10.1.0.0/16,fd12::/32"
NAT64 = IPv6Network("64:ff9b::/96")


class Guard:
    """Lets through what the whole world can reach, and what an operator allows besides."""

    def __init__(self, allowed: Sequence[Network] = (), *, resolve: Resolve | None = None) -> None:
        self.allowed = tuple(allowed)
        self._resolve = resolve or ask_system

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Every address of the host, all of them fit. Raises Fatal if one is not, Transient if there is none."""
        if (literal := as_literal(host)) is not None:
            found = [literal]
        else:
            found = [ip_address(text) for text in await self._lookup(host, port)]
        for address in found:
            if not self.lets(address):
                place = host if literal else f"{host} ({address})"
                raise refuse_address(f"{place} is not a public address. {HOW}")
        return found

    def lets(self, address: Address) -> bool:
        """Whether this address may be asked, for itself or for what it leads to."""
        if any(address in network for network in self.allowed):
            return True
        inner = led_to(address)
        if inner:
            return all(self.lets(one) for one in inner)
        return is_public(address)

    async def _lookup(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(resolve_seconds):
                found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:  # a timeout is an OSError, too
            reason = getattr(error, "strerror", None) or "the name service does not answer"
            raise Transient(f"The host {host} is not found: {reason}.", code="unreachable") from None
        if not found:
            raise Transient(f"The host {host} has no address.", code="unreachable")
        return found


def as_literal(host: str) -> Address | None:
    """The address that the host is written as; None for a name. Raises Fatal for what only looks like one of them."""
    try:
        literal = ip_address(host)
    except ValueError:
        if NAME.fullmatch(host) and not NUMBER.fullmatch(host):
            return None
        raise refuse_address(f"{host[:100]!r} is neither a name nor an address as one writes it.") from None
    if isinstance(literal, IPv6Address) and literal.scope_id is not None:
        raise refuse_address(f"{host[:100]!r} names an interface of this machine.")
    return literal


def led_to(address: Address) -> list[Address]:
    """The IPv4 addresses that are wrapped in this one, and that a gateway or tunnel would connect to."""
    if not isinstance(address, IPv6Address):
        return []
    if address in NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    return [one for one in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if one is not None]


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_V4)
    return address in PUBLIC_V6 and not any(address in network for network in SPECIAL_V6)


def refuse_address(detail: str) -> Fatal:
    return Fatal(detail, code="address-refused")


async def ask_system(host: str, port: int) -> list[str]:
    """The addresses that this machine's resolver gives for a name, in the order to try them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
