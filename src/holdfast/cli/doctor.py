"""`holdfast doctor`: everything Holdfast needs, looked at in the order in which it is needed."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import NoReturn
from urllib.request import urlopen

import typer

from holdfast import __version__
from holdfast.apps.providers import bundled_providers
from holdfast.errors import Failure, HoldfastError, MigrationForbidden, ObjectsUnreachable, ServerUnreachable
from holdfast.objects import folder_of, open_objects
from holdfast.postgres.connections import locate, open_connection
from holdfast.postgres.embedded import Embedded, find_binaries, major_version
from holdfast.postgres.migrate import name_of, pending
from holdfast.remote.places import goes_through_server, objects_of
from holdfast.settings import PREFIX, SETTINGS, Settings, read_settings, web_address
from holdfast.wakeups.queue import describe, queue_named

little_disk_bytes = 1 << 30
answer_within_seconds = 15.0


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was found and, if it is not as it should be, what to do."""

    name: str
    ok: bool
    finding: str
    fix: str = ""
    exit_code: int = 0


def examine() -> list[Check]:
    """Look at everything; what depends on something that failed is not looked at."""
    checks: list[Check] = []
    for name, look in looks():
        try:
            checks.append(look())
        except HoldfastError as error:
            return [*checks, Check(name, False, f"{error.title} {error.detail}", error.fix, error.exit_code)]
    return checks


def looks() -> Iterator[tuple[str, Callable[[], Check]]]:
    yield "python", check_python
    yield "settings", check_settings
    settings = read_settings()
    if settings.is_remote:
        yield "servers", lambda: check_servers(settings)
        yield "objects", lambda: asyncio.run(check_objects(settings))
        return
    if not settings.url:
        yield "postgres", lambda: check_binaries(settings)
        yield "disk", lambda: check_disk(settings)
    yield "database", lambda: asyncio.run(check_database(settings))
    yield "objects", lambda: asyncio.run(check_objects(settings))
    if settings.sqs_queue:
        yield "wake-ups", lambda: asyncio.run(check_wakeups(settings))
    yield "providers", lambda: asyncio.run(check_providers(settings))
    yield "server", lambda: check_server(settings)


def check_python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    return Check("python", True, f"{found}, holdfast {__version__}, {sys.platform}")


def check_settings() -> Check:
    read_settings()
    named = sorted(name for name in os.environ if name.startswith(PREFIX))
    known = {f"{PREFIX}{field}".upper() for field in SETTINGS}
    if unknown := [name for name in named if name not in known]:
        fix = f"Unset it. Known are: {', '.join(sorted(known))}."
        return Check("settings", False, f"Unknown: {', '.join(unknown)}.", fix, exit_code=2)
    return Check("settings", True, ", ".join(named) or "all by default")


def check_binaries(settings: Settings) -> Check:
    bindir = find_binaries(settings.home)
    return Check("postgres", True, f"{major_version(bindir)} in {bindir}")


def check_disk(settings: Settings) -> Check:
    home = settings.home.absolute()
    there = next(folder for folder in (home, *home.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    finding = f"{free / (1 << 30):.1f} GiB free at {there}"
    if free < little_disk_bytes:
        return Check("disk", False, finding, "Free some space: Postgres stops when the disk is full.", exit_code=1)
    return Check("disk", True, finding)


async def check_database(settings: Settings) -> Check:
    if not settings.url and not Embedded(settings.home).is_made():
        return Check("database", True, f"none yet in {settings.home.absolute()}; `holdfast up` makes it")
    with locate(settings) as address:
        async with open_connection(address.nearest(owner=True)) as connection:
            version = await connection.fetchval("select current_setting('server_version')")
            steps = ", ".join(name_of(step) for step in await pending(connection))
            may_migrate = await connection.fetchval(
                "select coalesce((select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'holdfast'),"
                " has_database_privilege(current_database(), 'create'))"
            )
    finding = f"Postgres {version}, {address.label}"
    if steps and not may_migrate:
        raise MigrationForbidden(
            f"{finding}; missing: {steps}.", fix="Run `holdfast db migrate` as the schema's owner."
        )
    if steps:
        return Check("database", True, f"{finding}; schema not yet: {steps}", "`holdfast up` does it.")
    return Check("database", True, f"{finding}; schema up to date")


async def check_objects(settings: Settings) -> Check:
    if goes_through_server(settings):
        servers = objects_of(settings)
        await servers.keys("doctor")
        return Check("objects", True, f"{servers.label}; no place of this host's (HOLDFAST_OBJECTS is not set)")
    if folder := folder_of(settings):
        place = f"the folder {folder.absolute()}"
        if not folder.exists():
            return Check("objects", True, f"none yet: {place}; `holdfast up` makes it")
        if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise ObjectsUnreachable(f"{place} cannot be written to.", fix="Name another with HOLDFAST_OBJECTS.")
        return Check("objects", True, place)
    objects = open_objects(settings)
    await objects.keys("doctor")
    return Check("objects", True, objects.label)


async def check_wakeups(settings: Settings) -> Check:
    """Whether the queue answers; that workers may receive from it and delete there is seen in their log."""
    queue = queue_named(settings)
    assert queue  # noqa: S101 - it is named, or this is not asked
    try:
        async with queue, asyncio.timeout(answer_within_seconds):
            waiting = await queue.depth()
    except Exception as error:
        fix = "Workers poll meanwhile. Look at its address, at Amazon's variables and at what the key may do."
        return Check("wake-ups", False, f"{queue.url} does not answer: {describe(error)}", fix, exit_code=1)
    return Check("wake-ups", True, f"{queue.url}, about {waiting} messages waiting")


async def check_providers(settings: Settings) -> Check:
    """Those that are set up here are asked whether they answer; workers elsewhere may have others."""
    ready, wrong = [], []
    for one in bundled_providers(lambda: settings):
        if all(one.missing(task_type) for task_type in one.task_types):
            ready.append(f"{one.name} not set up")
            continue
        try:
            async with asyncio.timeout(answer_within_seconds):
                await one.check()
            ready.append(f"{one.name} ready")
        except (Failure, TimeoutError) as error:
            wrong.append(f"{one.name}: {error.message if isinstance(error, Failure) else 'no answer'}")
        finally:
            await one.close()
    if wrong:
        fix = "Look at its keys and its address; `holdfast batch providers` lists those that workers have."
        return Check("providers", False, "; ".join(wrong), fix, exit_code=1)
    return Check("providers", True, ", ".join(ready))


def check_server(settings: Settings) -> Check:
    where = web_address(settings.host, settings.port)
    version = version_at(where)
    if version is None:
        return Check("server", True, f"none at {where}; `holdfast up` starts it")
    return Check("server", True, f"runs at {where}, holdfast {version}")


def check_servers(settings: Settings) -> Check:
    """With HOLDFAST_API and no HOLDFAST_URL, no database is needed here. Raises ServerUnreachable."""
    found = {where: version_at(where) for where in settings.servers}
    found_at = ", ".join(f"{where} {f'runs holdfast {one}' if one else 'is away'}" for where, one in found.items())
    if not any(found.values()):
        raise ServerUnreachable(f"{found_at}.", fix="Start one with `holdfast up`, or correct HOLDFAST_API.")
    return Check("servers", True, f"{found_at}; no database here (HOLDFAST_URL is not set)")


def version_at(where: str) -> str | None:
    """The version of the server there; None if there is none."""
    try:
        with urlopen(f"{where}/health", timeout=5) as answer:  # noqa: S310
            return str(json.load(answer)["version"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None


def leave(code: int) -> NoReturn:
    """End with this exit code, whatever the threads do that spoke to a bucket.

    They are not Python's; one that wants the interpreter while it ends would bring the process down with SIGABRT.
    """
    try:
        asked_bucket = folder_of(read_settings()) is None
    except HoldfastError:
        asked_bucket = False
    if not asked_bucket:
        raise typer.Exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
