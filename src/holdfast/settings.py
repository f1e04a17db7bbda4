"""Settings: read once from the environment, here and nowhere else.

Every one is optional and named HOLDFAST_..., as the table in docs/reference/settings.md lists them.
"""

import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from holdfast.errors import SettingInvalid

PREFIX = "HOLDFAST_"
PLACES = {
    "file": "file:///folder",
    "s3": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "az": "az://container/prefix",
}
QUEUE = "sqs:https://sqs.eu-central-1.amazonaws.com/123456789012/holdfast"


class Settings(BaseModel):
    """What one process of Holdfast was told."""

    model_config = ConfigDict(frozen=True)

    url: Annotated[str | None, Field(repr=False)] = None
    """A `postgresql://` address. Without it: the embedded Postgres in `home`."""

    home: Path = Path(".holdfast")
    """The folder of the embedded Postgres."""

    objects: str | None = None
    """Where files are kept: `file:///folder`, `s3://bucket/prefix`, `gs://...`, `az://...`.

    Without it: in `home`; where there is a server and no database, with the server.
    """

    host: str = "127.0.0.1"
    """The address to serve on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 7777
    """The port to serve on; the next free one if it is taken. 0: any."""

    app: str = ""
    """Where your tasks are, for workers: `module:attribute`, or a file."""

    api: str = ""
    """The server that clients and workers speak to, such as `https://example.org`; several with commas between them.

    Commands ask the one on this machine by default. Applications and workers speak to it where `url` is not set.
    """

    key: Annotated[str, Field(repr=False)] = ""
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

    @property
    def fetch_networks(self) -> list[IPv4Network | IPv6Network]:
        return [ip_network(text.strip()) for text in self.fetch_allow.split(",") if text.strip()]

    @field_validator("fetch_allow")
    @classmethod
    def _are_networks(cls, fetch_allow: str) -> str:
        for text in filter(None, (text.strip() for text in fetch_allow.split(","))):
            try:
                ip_network(text)
            except ValueError:
                raise ValueError(f"{text!r} is no network; write 10.1.0.0/16,192.0.2.7/32") from None
        return fetch_allow

    @property
    def sqs_queue(self) -> str | None:
        """The address of the queue that wake-ups go through, if they do."""
        return self.wakeups.removeprefix("sqs:") if self.wakeups.startswith("sqs:") else None

    @field_validator("wakeups")
    @classmethod
    def _is_a_way_to_wake(cls, wakeups: str) -> str:
        if wakeups == "postgres":
            return wakeups
        parts = urlsplit(wakeups.removeprefix("sqs:"))
        account_and_name = parts.path.strip("/").split("/")
        is_queue = parts.scheme in ("http", "https") and parts.netloc and len(account_and_name) >= 2
        if not wakeups.startswith("sqs:") or not is_queue or parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError(f"is none of postgres, sqs:<queue-url>; such as {QUEUE}")
        if parts.path.endswith(".fifo"):
            raise ValueError("names a FIFO queue; take a standard one: neither order nor doubles matter here")
        return wakeups

    @property
    def host_names(self) -> list[str]:
        return [name.strip() for name in self.hosts.split(",") if name.strip()]

    @property
    def servers(self) -> list[str]:
        """The addresses of the servers, for a client; whichever answers will do."""
        return split_addresses(self.api) or [web_address(self.host, self.port)]

    @property
    def server(self) -> str:
        """The first of them: where links lead that people are given."""
        return self.servers[0]

    @property
    def is_remote(self) -> bool:
        """Whether applications and workers here speak to a server, and have no database."""
        return bool(self.api) and not self.url

    @field_validator("api")
    @classmethod
    def _are_web_addresses(cls, api: str) -> str:
        addresses = split_addresses(api)
        if api and not addresses:
            raise ValueError("names no server; write https://host:port")
        for address in addresses:
            if not is_web_address(address):
                raise ValueError("is no web address; write https://host:port")
        return api

    @field_validator("embedder")
    @classmethod
    def _is_an_embedder(cls, embedder: str) -> str:
        kind, _, model = embedder.partition(":")
        if embedder == "minilm":
            raise ValueError(
                "names minilm, which is not part of Holdfast any more; write wordllama, or serve the model and write"
                " openai:all-minilm with OPENAI_BASE_URL"
            )
        if embedder != "wordllama" and not (kind == "openai" and model.partition(":")[0]):
            raise ValueError("is none of wordllama, openai:<model>, openai:<model>:<dimensions>")
        return embedder

    @field_validator("neutralizer")
    @classmethod
    def _is_a_neutralizer(cls, neutralizer: str) -> str:
        kind, _, model = neutralizer.partition(":")
        if neutralizer != "rules" and not (kind == "openai" and model):
            raise ValueError("is none of rules, openai:<model>")
        return neutralizer

    @field_validator("url")
    @classmethod
    def _is_postgres(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not url.startswith(("postgresql://", "postgres://")):
            scheme = url.partition(":")[0].partition("=")[0]
            raise ValueError(f"starts with {scheme!r}; write postgresql://user:password@host:5432/database")
        for host in urlsplit(url).netloc.rpartition("@")[2].split(","):
            port = host.rpartition("]")[2].partition(":")[2]
            if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
                raise ValueError("has a port that is none; in a password, write / as %2F, @ as %40 and : as %3A")
        return url

    @field_validator("objects")
    @classmethod
    def _is_a_place(cls, objects: str | None) -> str | None:
        if objects is None:
            return None
        parts = urlsplit(objects)
        if parts.scheme not in PLACES or "://" not in objects:
            raise ValueError(f"is none of {', '.join(PLACES.values())}")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("has more than a place in it; keys go into the variables of the vendor, AWS_... for one")
        wrong = parts.netloc or not parts.path.strip("/") if parts.scheme == "file" else not parts.netloc
        if wrong or any(part in (".", "..") for part in parts.path.split("/")):
            raise ValueError(f"names no place; write {PLACES[parts.scheme]}")
        return objects


def vendor_variable(*names: str) -> str | None:
    """The first of these variables of a vendor that is set, such as AWS_REGION."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def split_addresses(api: str) -> list[str]:
    return [address.strip().rstrip("/") for address in api.split(",") if address.strip()]


def is_web_address(address: str) -> bool:
    """Whether it names a server: a scheme, a host, perhaps a port and a path, and nothing else."""
    try:
        parts = urlsplit(address)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0  # what is no port raises
    except ValueError:
        return False
    return bool(named) and not (parts.query or parts.fragment or "@" in parts.netloc)


def web_address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def read_settings(*, url: str | None = None) -> Settings:
    """The settings of this process, but for a `url` that is given. Raises SettingInvalid, which names the variable."""
    try:
        given = {name: os.environ.get(PREFIX + name.upper(), "") for name in Settings.model_fields}
        told = {name: value for name, value in given.items() if value}  # an empty variable counts as unset
        return Settings.model_validate({**told, "url": url} if url else told)
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_input=False, include_url=False):
            name = PREFIX + "_".join(str(part) for part in problem["loc"]).upper()
            lines.append(f"{name}: {problem['msg'].removeprefix('Value error, ')}.")
        raise SettingInvalid("\n".join(lines)) from None
