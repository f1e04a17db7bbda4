"""Settings: read once from the environment, here and nowhere else.

Every one is optional and named HOLDFAST_..., as the table in docs/reference/settings.md lists them. Every command
starts with them, so nothing is imported here but the standard library.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.errors import SettingInvalid

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

PREFIX = "HOLDFAST_"
PLACES = {
    "file": "file:///folder",
    "s3": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "az": "az://container/prefix",
}
QUEUE = "sqs:https://sqs.eu-central-1.amazonaws.com/123456789012/holdfast"


@dataclass(frozen=True)
class Settings:
    """What one process of Holdfast is given. Raises SettingInvalid, which names the setting and hides its value."""

    url: str | None = field(default=None, repr=False)
    """A `postgresql://` address. Without it: the embedded Postgres in `home`."""

    home: Path = Path(".holdfast")
    """The folder of the embedded Postgres."""

    objects: str | None = None
    """Where files are kept: `file:///folder`, `s3://bucket/prefix`, `gs://...`, `az://...`.

    Without it: in `home`; where there is a server and no database, with the server.
    """

    host: str = "127.0.0.1"
    """The address to serve on."""

    port: int = 7777
    """The port to serve on; the next free one if it is taken. 0: any."""

    app: str = ""
    """Where your tasks are, for workers: `module:attribute`, or a file."""

    api: str = ""
    """The server that clients and workers speak to, such as `https://example.org`; several with commas between them.

    Commands ask the one on this machine by default. Applications and workers speak to it where `url` is not set.
    """

    key: str = field(default="", repr=False)
    """The key that a client shows there."""

    hosts: str = ""
    """The host names the server goes by, with commas between them; bound to loopback, besides those of loopback."""

    embedder: str = "wordllama"
    """What makes vectors of texts: `wordllama`, `openai:<model>` or `openai:<model>:<dimensions>`."""

    neutralizer: str = "rules"
    """What softens loaded language in the newsroom: `rules`, or a model, `openai:<model>`."""

    wakeups: str = "postgres"
    """How workers learn of work: `postgres`, or messages in a queue of Amazon's, `sqs:<queue-url>`."""

    fetch_allow: str = ""
    """Networks that documents may be fetched from besides public addresses, with commas between: `10.1.0.0/16`."""

    def __post_init__(self) -> None:
        wrong = []
        for name, convert in CONVERTED.items():
            try:
                object.__setattr__(self, name, convert(getattr(self, name)))
            except ValueError as error:
                wrong.append(f"{variable(name)}: {error}.")
        if wrong:
            raise SettingInvalid("\n".join(wrong))

    @property
    def fetch_networks(self) -> "list[IPv4Network | IPv6Network]":
        return as_networks(self.fetch_allow)

    @property
    def sqs_queue(self) -> str | None:
        """The address of the queue that wake-ups go through, if they do."""
        return self.wakeups.removeprefix("sqs:") if self.wakeups.startswith("sqs:") else None

    @property
    def host_names(self) -> list[str]:
        return split_list(self.hosts)

    @property
    def servers(self) -> list[str]:
        """The addresses of the servers, for a client; any of them answers."""
        return split_addresses(self.api) or [web_address(self.host, self.port)]

    @property
    def server(self) -> str:
        """The first of them: the links that people get begin with it."""
        return self.servers[0]

    @property
    def is_remote(self) -> bool:
        """Whether applications and workers here speak to a server, and have no database."""
        return bool(self.api) and not self.url


SETTINGS = tuple(one.name for one in fields(Settings))


def variable(setting: str) -> str:
    return PREFIX + setting.upper()


# Each returns the value, or raises a ValueError that says what is wrong and does not repeat the value.


def as_port(port: Any) -> int:
    try:
        number = int(port)
    except ValueError:
        raise ValueError("is not a whole number") from None
    if not 0 <= number <= 65535:
        raise ValueError("is not a number from 0 to 65535")
    return number


def as_database(url: str | None) -> str | None:
    if url is None:
        return None
    if not url.startswith(("postgresql://", "postgres://")):
        scheme = url.partition(":")[0].partition("=")[0]
        raise ValueError(f"starts with {scheme!r}; write postgresql://user:password@host:5432/database")
    for host in urlsplit(url).netloc.rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError("has a port that is not a number; in a password, write / as %2F, @ as %40 and : as %3A")
    return url


def as_objects(objects: str | None) -> str | None:
    if objects is None:
        return None
    parts = urlsplit(objects)
    if parts.scheme not in PLACES or "://" not in objects:
        raise ValueError(f"is not one of {', '.join(PLACES.values())}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("has more than a place in it; keys go into the variables of the vendor, AWS_... for one")
    wrong = parts.netloc or not parts.path.strip("/") if parts.scheme == "file" else not parts.netloc
    if wrong or any(part in (".", "..") for part in parts.path.split("/")):
        raise ValueError(f"does not name a place; write {PLACES[parts.scheme]}")
    return objects


def as_servers(api: str) -> str:
    addresses = split_addresses(api)
    if api and not addresses:
        raise ValueError("does not name a server; write https://host:port")
    if not all(map(is_web_address, addresses)):
        raise ValueError("is not a web address; write https://host:port")
    return api


def as_embedder(embedder: str) -> str:
    kind, _, model = embedder.partition(":")
    if embedder == "minilm":
        raise ValueError(
            "names minilm, which is not part of Holdfast any more; write wordllama, or serve the model and write"
            " openai:all-minilm with OPENAI_BASE_URL"
        )
    if embedder != "wordllama" and not (kind == "openai" and model.partition(":")[0]):
        raise ValueError("is not one of wordllama, openai:<model>, openai:<model>:<dimensions>")
    return embedder


def as_neutralizer(neutralizer: str) -> str:
    kind, _, model = neutralizer.partition(":")
    if neutralizer != "rules" and not (kind == "openai" and model):
        raise ValueError("is not one of rules, openai:<model>")
    return neutralizer


def as_wakeups(wakeups: str) -> str:
    if wakeups == "postgres":
        return wakeups
    parts = urlsplit(wakeups.removeprefix("sqs:"))
    account_and_name = parts.path.strip("/").split("/")
    is_queue = parts.scheme in ("http", "https") and parts.netloc and len(account_and_name) >= 2
    if not wakeups.startswith("sqs:") or not is_queue or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"is not one of postgres, sqs:<queue-url>; such as {QUEUE}")
    if parts.path.endswith(".fifo"):
        raise ValueError("names a FIFO queue; take a standard one: neither order nor doubles matter here")
    return wakeups


def as_networks(fetch_allow: str) -> "list[IPv4Network | IPv6Network]":
    from ipaddress import ip_network  # seldom needed, and every command would import it

    networks = []
    for text in split_list(fetch_allow):
        try:
            networks.append(ip_network(text))
        except ValueError:
            raise ValueError(f"{text!r} is not a network; write 10.1.0.0/16,192.0.2.7/32") from None
    return networks


def as_fetch_allow(fetch_allow: str) -> str:
    as_networks(fetch_allow)
    return fetch_allow


CONVERTED: Mapping[str, Callable[[Any], Any]] = {
    "url": as_database, "home": Path, "objects": as_objects, "port": as_port, "api": as_servers,
    "embedder": as_embedder, "neutralizer": as_neutralizer, "wakeups": as_wakeups, "fetch_allow": as_fetch_allow,
}  # fmt: skip


def vendor_variable(*names: str) -> str | None:
    """The first of these variables of a vendor that is set, such as AWS_REGION."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def split_list(text: str) -> list[str]:
    """What stands between the commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def split_addresses(api: str) -> list[str]:
    return [address.rstrip("/") for address in split_list(api)]


def is_web_address(address: str) -> bool:
    """Whether it names a server: a scheme, a host, perhaps a port and a path, and nothing else."""
    try:
        parts = urlsplit(address)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0  # an invalid port raises
    except ValueError:
        return False
    return bool(named) and not (parts.query or parts.fragment or "@" in parts.netloc)


def web_address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def read_settings(*, url: str | None = None) -> Settings:
    """The settings of this process, but for a `url` that is given. Raises SettingInvalid, which names the variable."""
    given = {name: value for name in SETTINGS if (value := os.environ.get(variable(name)))}  # empty counts as unset
    return Settings(**(given | ({"url": url} if url else {})))  # type: ignore[arg-type]
