"""What a person types and what comes back: the words, the exit codes, stdout apart from stderr."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.cli.db import split_password
from holdfast.postgres.migrate import PACKAGES
from holdfast.testing import Database
from tests.cli.keyboard import run_alone
from tests.cli.keyboard import typed_alone as holdfast
from tests.http.serving import serving
from tests.wakeups.amazon import Line


def test_version() -> None:
    assert run_alone("version").out == f"holdfast {__version__}\n"
    assert json.loads(holdfast("version", "--json").out)["holdfast"] == __version__


def test_help_names_every_command() -> None:
    done = holdfast("--help")
    assert done.code == 0
    panels = {"Run": "up worker init", "Tasks": "start watch cancel retry", "Look": "ls show why events",
              "Operate": "workers queues keys lifecycle db doctor version"}  # fmt: skip
    for panel, names in panels.items():
        printed = done.out.partition(f"─ {panel} ─")[2].partition("╰")[0]
        assert [name for name in names.split() if f"│ {name} " not in printed] == []


def test_an_unknown_command_is_a_usage_error() -> None:
    done = holdfast("fly")
    assert done.code == 2
    assert "No such command 'fly'" in done.err
    assert done.out == ""


def test_a_mistyped_command_names_the_near_one() -> None:
    assert "Did you mean 'watch'" in " ".join(holdfast("wacth").err.split())


def test_a_wrong_setting_is_a_usage_error() -> None:
    done = holdfast("db", "url", HOLDFAST_URL="sqlite://x")
    assert (done.code, done.out) == (2, "")
    assert "HOLDFAST_URL" in done.err


def test_a_database_that_does_not_answer_is_exit_5() -> None:
    for arguments in (("db", "migrate"), ("up",), ("ls", "--json"), ("start", "send")):
        done = holdfast(*arguments, HOLDFAST_URL="postgresql://a:secret@127.0.0.1:1/b")
        assert (done.code, done.out) == (5, "")
        assert "The database does not answer." in done.err
        assert "secret" not in done.err
        assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments",
    ["ls", "show a", "why a", "watch a", "events a", "cancel a", "retry a", "start send", "workers", "queues",
              "queues pause default", "queues resume default", "keys ls"],
)  # fmt: skip
def test_looking_makes_no_database(tmp_path: Path, arguments: str) -> None:
    answered = holdfast(*arguments.split(), folder=tmp_path)
    assert answered.code == 5
    assert (answered.out, f"{tmp_path}/.holdfast" in answered.err, "HOLDFAST_HOME" in answered.err) == ("", True, True)
    assert list(tmp_path.iterdir()) == []


def test_serving_to_other_machines_needs_a_key(database: Database) -> None:
    done = run_alone("up", HOLDFAST_HOST="0.0.0.0", HOLDFAST_URL=database.url)  # noqa: S104
    assert done.code == 2
    assert "there is no key to ask for" in done.err


def test_migrate_tells_what_it_did(empty_database: Database) -> None:
    first = holdfast("db", "migrate", HOLDFAST_URL=empty_database.owner_url)
    steps = [f"applied {package.name}/{migration.name}" for package in PACKAGES for migration in package.migrations]
    assert first.out.splitlines() == [*steps, "applied functions"]
    assert holdfast("db", "migrate", HOLDFAST_URL=empty_database.owner_url).out == "The schema is up to date.\n"
    # The days to come have their partitions already: made while workers run, each would make them plan anew.
    assert empty_database.ask_owner("select holdfast.make_partitions()") == 0


def test_url_of_a_server_of_ones_own(database: Database) -> None:
    done = holdfast("db", "url", HOLDFAST_URL=database.url)
    assert (done.out, done.err) == (f"{database.url}\n", "")


def test_psql_passes_arguments_and_exit_codes_on(database: Database) -> None:
    done = run_alone("db", "psql", "-Atc", "select holdfast.now()", HOLDFAST_URL=database.url)
    assert done.out == "2030-01-01 00:00:00+00\n"
    assert run_alone("db", "psql", "-c", "select nonsense", HOLDFAST_URL=database.url).code == 1


@pytest.mark.deep
def test_the_embedded_server_has_an_owner_and_an_application(tmp_path: Path) -> None:
    assert run_alone("db", "migrate", folder=tmp_path).code == 0
    application = run_alone("db", "url", folder=tmp_path)
    assert "://holdfast_app:" in application.out
    assert "Nothing keeps this server running" in application.err
    assert "://holdfast:" in run_alone("db", "url", "--owner", folder=tmp_path).out
    ask = ("-Atc", "select current_user")
    assert run_alone("db", "psql", *ask, folder=tmp_path).out == "holdfast_app\n"
    assert run_alone("db", "psql", "--owner", *ask, folder=tmp_path).out == "holdfast\n"
    denied = run_alone("db", "psql", "-c", "table holdfast.migration", folder=tmp_path)
    assert "permission denied" in denied.err
    assert (tmp_path / ".holdfast" / ".gitignore").read_text() == "*\n"


def test_doctor_looks_at_everything_and_changes_nothing(empty_database: Database) -> None:
    done = holdfast("doctor", "--json", HOLDFAST_URL=empty_database.owner_url)
    checks = {check["name"]: check for check in json.loads(done.out)}
    assert done.code == 0
    assert list(checks) == ["python", "settings", "database", "objects", "providers", "server"]
    assert "schema not yet: engine/0001_clock" in checks["database"]["finding"]
    assert empty_database.ask_owner("select to_regnamespace('holdfast')") is None


def test_doctor_asks_the_providers_that_are_set_up(database: Database) -> None:
    done = holdfast("doctor", HOLDFAST_URL=database.url, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert done.code == 1
    assert "OPENAI: " in done.out
    assert "Look at its keys and its address" in done.out


@pytest.mark.deep
def test_doctor_asks_the_queue_that_wake_ups_go_through(database: Database, line: Line) -> None:
    done = holdfast("doctor", folder=None, HOLDFAST_URL=database.url, **line.variables)
    assert done.code == 0
    assert f"{line.queue_url}, about 0 messages waiting" in "".join(done.out.split("\n"))
    line.server.stop()
    done = holdfast("doctor", folder=None, HOLDFAST_URL=database.url, **line.variables)
    assert done.code == 1
    assert "Workers poll meanwhile" in done.out


def test_doctor_makes_no_cluster(tmp_path: Path) -> None:
    done = run_alone("doctor", folder=tmp_path)
    assert done.code == 0
    assert "none yet in" in done.out
    assert list(tmp_path.iterdir()) == []


def test_doctor_is_not_confused_by_another_service_on_the_port(database: Database) -> None:
    def greet() -> None:
        with other.accept()[0] as caller:
            caller.sendall(b"220 mail\r\n")

    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=greet, daemon=True).start()
        port = str(other.getsockname()[1])
        done = holdfast("doctor", HOLDFAST_URL=database.url, HOLDFAST_PORT=port)
    assert done.code == 0
    assert f"none at http://127.0.0.1:{port}" in done.out


def test_doctor_knows_who_may_migrate(empty_database: Database) -> None:
    done = holdfast("doctor", HOLDFAST_URL=empty_database.url)
    assert done.code == 5
    assert "may not change the schema" in done.out


@pytest.mark.parametrize(
    ("address", "bare", "password"),
    [
        ("postgresql://me:a%40b@db:5432/x?sslmode=require", "postgresql://me@db:5432/x?sslmode=require", "a@b"),
        ("postgresql://me@db/x?password=s%20t&port=1", "postgresql://me@db/x?port=1", "s t"),
        ("postgresql:///x?host=/run/pg", "postgresql:///x?host=%2Frun%2Fpg", None),
    ],
)
def test_the_password_does_not_show_in_the_list_of_processes(address: str, bare: str, password: str | None) -> None:
    assert split_password(address) == (bare, password)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may take any port")
def test_a_port_of_roots_is_named_as_such(database: Database) -> None:
    done = run_alone("up", HOLDFAST_URL=database.url, HOLDFAST_PORT="80")
    assert done.code == 2
    assert "HOLDFAST_PORT=80: Permission denied." in done.err


@pytest.mark.parametrize(
    ("environment", "code", "says"),
    [
        ({"HOLDFAST_URL": "postgresql://a@127.0.0.1:1/b"}, 5, "FAIL  database   The database does not answer."),
        ({"HOLDFAST_OBJECTS": "nowhere"}, 2, "FAIL  settings   A setting cannot be used. HOLDFAST_OBJECTS"),
        ({"HOLDFAST_PORT": "x"}, 2, "FAIL  settings   A setting cannot be used. HOLDFAST_PORT"),
        ({"HOLDFAST_PROT": "7777", "HOLDFAST_URL": "postgresql://a@127.0.0.1:1/b"}, 5, "Unknown: HOLDFAST_PROT."),
    ],
)
def test_doctor_names_what_is_wrong(environment: dict[str, str], code: int, says: str) -> None:
    done = holdfast("doctor", folder=None, **environment)
    assert done.code == code
    assert says in done.out


def test_doctor_names_a_place_for_files_that_cannot_be_used(database: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    closed = holdfast("doctor", HOLDFAST_URL=database.url, HOLDFAST_OBJECTS=f"file://{tmp_path}/file")
    assert (closed.code, "FAIL  objects" in closed.out) == (5, True)
    away = run_alone(
        "doctor", HOLDFAST_URL=database.url, HOLDFAST_OBJECTS="s3://mine", AWS_ENDPOINT_URL="http://127.0.0.1:1",
        AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="hidden",
    )  # fmt: skip
    assert (away.code, "FAIL  objects" in away.out, "hidden" in away.out) == (5, True, False)


def test_doctor_asks_for_files_where_the_server_has_them(database: Database, tmp_path: Path) -> None:
    with serving(database) as address:
        answered = {"HOLDFAST_API": address, "HOLDFAST_HOME": str(tmp_path / "home")}
        well = holdfast("doctor", folder=None, **answered)
        assert f"ok    objects    the files of {address}" in well.out
        assert well.code == 0
        refused = holdfast("doctor", folder=None, **answered, HOLDFAST_KEY="hf_secret")
        assert "FAIL  objects    The place where files are kept cannot be used." in refused.out
        assert (refused.code, "hf_secret" in refused.out) == (5, False)
    away = holdfast("doctor", folder=None, **answered)
    assert f"FAIL  servers    The server does not answer. {address} is away." in away.out
    assert away.code == 5
    assert not (tmp_path / "home").exists()


def test_doctor_names_settings_without_their_secrets() -> None:
    done = holdfast("doctor", HOLDFAST_URL="postgresql://a@127.0.0.1:1/b", HOLDFAST_KEY="hf_secret")
    assert "ok    settings   HOLDFAST_KEY, HOLDFAST_URL" in done.out
    assert "hf_secret" not in done.out
