"""`holdfast db`: the database behind it all."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import typer

from holdfast.cli.options import Json, Owner
from holdfast.errors import BinariesMissing

app = typer.Typer(no_args_is_help=True)


@app.command()
def url(owner: Owner = False, as_json: Json = False) -> None:
    """Print the database's address, password included."""
    from holdfast.postgres.connections import locate
    from holdfast.postgres.embedded import Embedded
    from holdfast.settings import read_settings

    settings = read_settings()
    lasting = bool(settings.url) or Embedded(settings.home).is_in_use()
    with locate(settings) as address:
        found = address.url(owner=owner)
    typer.echo(json.dumps({"url": found, "running": lasting}) if as_json else found)
    if not lasting:
        typer.echo("Nothing keeps this server running: start `holdfast up`, or use `holdfast db psql`.", err=True)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context, owner: Owner = False) -> None:
    """Open psql in the database; what follows is passed on to it (-c 'select 1')."""
    from holdfast.postgres.connections import locate
    from holdfast.postgres.embedded import binary_folders
    from holdfast.settings import read_settings

    settings = read_settings()
    bundled, installed = [str(folder) for folder in binary_folders()], os.get_exec_path()
    # The bundled one is of the embedded server's version, but speaks no TLS.
    places = installed + bundled if settings.url else bundled + installed
    program = shutil.which("psql", path=os.pathsep.join(places))
    if not program:
        raise BinariesMissing("psql is not installed.", fix="Install the Postgres client of your system.")
    with locate(settings) as address:
        bare, password = split_password(address.nearest(owner=owner))
        environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is psql's
        try:
            code = subprocess.run([program, bare, *context.args], env=environment, check=False).returncode
        finally:
            signal.signal(signal.SIGINT, before)
    raise typer.Exit(code)


@app.command()
def migrate(as_json: Json = False) -> None:
    """Bring the schema up to date. Safe to run at any time, by many at once."""
    from holdfast.engine.opening import bring_up_to_date
    from holdfast.postgres.connections import locate
    from holdfast.settings import read_settings

    with locate(read_settings()) as address:
        applied = asyncio.run(bring_up_to_date(address))
    if as_json:
        typer.echo(json.dumps({"applied": applied}))
    else:
        typer.echo("\n".join(f"applied {name}" for name in applied) or "The schema is up to date.")


def split_password(address: str) -> tuple[str, str | None]:
    """The address without its password, which would show in the list of processes, and the password."""
    parts = urlsplit(address)
    who, _, where = parts.netloc.rpartition("@")
    user, _, password = who.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)
    given = unquote(password) or dict(query).get("password")
    kept = urlencode([(name, value) for name, value in query if name != "password"], quote_via=quote)
    bare = f"{parts.scheme}://{user}{'@' if user else ''}{where}{parts.path}{'?' if kept else ''}{kept}"
    return bare, given
