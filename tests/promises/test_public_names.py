"""What users may write stays: all that public_names.txt lists is still there. More may be added.

The list was taken at commit c3c657c, from docs/reference as it was then and from the code itself. A line may leave it
only together with a note in CHANGELOG.md.
"""

import contextlib
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import httpx2
import pytest
import typer
from typer.core import TyperArgument, TyperGroup

from holdfast import errors
from holdfast.api import make_app
from holdfast.cli import LazyGroup
from holdfast.cli import app as commands
from holdfast.lifecycles import LIFECYCLES
from holdfast.objects.local import Folder
from holdfast.settings import SETTINGS
from holdfast.testing import Database

LIST = Path(__file__).with_name("public_names.txt")
Json = dict[str, Any]


def read_sections(text: str) -> dict[str, list[str]]:
    """The lines under each `[section]`, without comments."""
    _, *parts = re.split(r"^\[(\w+)\]\n", text, flags=re.M)
    lines = [[line for line in part.splitlines() if line and line[0] != "#"] for part in parts[1::2]]
    return dict(zip(parts[::2], lines, strict=True))


LISTED = read_sections(LIST.read_text())


# Python: `holdfast.Task.start(self, *args, **kwargs)`; `=...` marks a parameter that may be left out.


def resolve(path: str) -> Any:
    """The object at a dotted path; `holdfast.Holdfast.dag()` is what that method returns."""
    parts = path.split(".")
    modules = [".".join(parts[:length]) for length in (1, 2) if length < len(parts)]
    found, rest = None, parts
    for length, module in enumerate(modules, 1):
        with contextlib.suppress(ModuleNotFoundError):
            found, rest = importlib.import_module(module), parts[length:]
    for name in rest:
        found = getattr(found, name.removesuffix("()"))
        if name.endswith("()"):
            found = get_type_hints(found)["return"]
    return found


def describe(path: str) -> str:
    """The line for the list."""
    found = resolve(path)
    if not callable(found) or (isinstance(found, type) and issubclass(found, BaseException | dict)):
        return path
    kept = [
        one.replace(annotation=one.empty, default=one.empty if one.default is one.empty else ...)
        for one in inspect.signature(found).parameters.values()
    ]
    return path + str(inspect.Signature(kept)).replace("Ellipsis", "...")


def calls_of(listed: inspect.Signature) -> Iterator[tuple[list[int], dict[str, int]]]:
    """The calls that it allows: all arguments by position, all by name, as few as possible."""
    every = [one for one in listed.parameters.values() if one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}]
    for chosen in (every, [one for one in every if one.default is one.empty]):
        for by_name in ({"KEYWORD_ONLY"}, {"KEYWORD_ONLY", "POSITIONAL_OR_KEYWORD"}):
            named = {one.name: 0 for one in chosen if one.kind.name in by_name}
            yield [0 for one in chosen if one.name not in named], named


@pytest.mark.parametrize("line", LISTED["python"])
def test_python_can_be_called_as_it_was(line: str) -> None:
    path, parameters = re.fullmatch(r"(.*?)(?:\(([^()]*)\))?", line).groups()  # type: ignore[union-attr]
    found = resolve(path)
    if parameters is not None:
        ours = inspect.signature(found)
        listed = inspect.signature(eval(f"lambda {parameters}: 0"))  # noqa: S307
        for positional, named in calls_of(listed):
            ours.bind(*positional, **named)
        fixed = [one.name for one in listed.parameters.values() if one.kind.name == "POSITIONAL_OR_KEYWORD"]
        assert [name for name in ours.parameters if name in fixed] == fixed, "in another order"


# Everything else is `subject: item item item`; each item of a listed subject must be there still.

Items = dict[str, set[str]]


def commands_now(_: Database) -> Items:
    """`start: <1> --wait`: the arguments by place, and the options."""
    found: Items = {}

    def walk(command: Any, name: str) -> None:
        command = command.load() if isinstance(command, LazyGroup) else command
        arguments = [one for one in command.params if isinstance(one, TyperArgument)]
        options = [name for one in command.params if one not in arguments for name in (*one.opts, *one.secondary_opts)]
        found[name] = {*options, *(f"<{place}>" for place, _ in enumerate(arguments, 1))}
        for each, inner in command.commands.items() if isinstance(command, TyperGroup) else ():
            walk(inner, f"{name} {each}")

    walk(typer.main.get_command(commands), "holdfast")
    return found


HIDDEN = {
    "POST /internal/rooms/{}/{}": "POST /internal/rpc/{}/{}",
    "POST /internal/heed": "POST /internal/block-budget",
}
"""Paths that workers and clients of an older release call, with the documented path that does the same."""


def http_now(_: Database) -> Items:
    """`GET /api/v1/tasks: ?state <-payload ->id`: what is asked for, what is sent, what comes back."""
    pool: Any = None  # the document needs no database
    app = make_app(pool, database="", objects=Folder(Path("unopened")))
    document = app.openapi()
    schemas = document["components"]["schemas"]
    found = {
        (method.upper(), path): {
            *(f"?{one['name']}" for one in operation.get("parameters", []) if one["in"] == "query"),
            *(f"<-{field}" for field in fields_in(operation.get("requestBody", {}), schemas)),
            *(
                f"->{field}"
                for status, response in operation["responses"].items()
                if status < "300"
                for field in (status, *fields_in(response, schemas))
            ),
        }
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    listed = {f"{method} {re.sub('{[^}]*}', '{}', path)}": items for (method, path), items in found.items()}
    return listed | {old: listed[new] for old, new in HIDDEN.items()}


@pytest.mark.parametrize(("old", "new"), HIDDEN.items())
async def test_a_path_that_is_not_documented_any_more_still_answers(old: str, new: str, database: Database) -> None:
    app = make_app(database.bridge(), database="", objects=Folder(Path("unopened")))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        statuses = [(await client.request(*line.replace("{}", "x").split())).status_code for line in (old, new)]
    assert statuses[0] == statuses[1] not in {404, 405}


def fields_in(body: Json, schemas: Json) -> set[str]:
    return {
        field for content in body.get("content", {}).values() for field in fields_of(content.get("schema", {}), schemas)
    }


def fields_of(schema: Json, schemas: Json, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """`a`, `a.b` and `a[].c`: the fields of a schema, each reference followed once."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name and name not in seen:
        yield from fields_of(schemas[name], schemas, (*seen, name))
    for choice in [*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("allOf", [])]:
        yield from fields_of(choice, schemas, seen)
    inside = {**schema.get("properties", {}), "[]": schema.get("items")}
    for name, inner in inside.items():
        if isinstance(inner, dict):
            yield name
            deeper = fields_of(inner, schemas, seen)
            yield from (f"{name}{one}" if one[0] == "[" else f"{name}.{one}" for one in deeper)


def errors_now(_: Database) -> Items:
    """`TaskBusy: 3 503 task-busy TK011`: exit code, status, code and SQLSTATE."""
    return {
        name: {str(kind.exit_code), str(kind.http_status), kind.http_code, kind.sqlstate or "-"}
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.HoldfastError)
    }


def settings_now(_: Database) -> Items:
    return {f"HOLDFAST_{name.upper()}": set() for name in SETTINGS}


def lifecycles_now(_: Database) -> Items:
    """`batch IN_PROGRESS worker: fail>FAILED`: a state, who acts in it or how it ended, and its moves."""
    return {
        f"{one.name} {state.name} {state.outcome or state.actor}": {f"{move.verb}>{move.to}" for move in state.moves}
        for one in LIFECYCLES
        for state in one.states
    }


SECTIONS = {
    "commands": commands_now,
    "http": http_now,
    "errors": errors_now,
    "settings": settings_now,
    "lifecycles": lifecycles_now,
}


@pytest.mark.parametrize("section", SECTIONS)
def test_all_that_was_listed_is_there(section: str, database: Database) -> None:
    ours = SECTIONS[section](database)
    missing = []
    for line in LISTED[section]:
        subject, _, items = line.partition(": ")
        gone = set(items.split()) - ours.get(subject, set())
        if gone or subject not in ours:
            missing.append(f"{subject}: {' '.join(sorted(gone))}")
    assert missing == []


# SQL: `cancel(task uuid, reason text)`, as granted. An argument `p_...` is written as its type: it is meant for our own
# code, which passes it by place.

CHANGED_SQL: dict[str, str] = {}
"""Functions whose arguments are others now, each with the reason."""


def sql_now(database: Database) -> dict[str, list[list[str]]]:
    """The arguments of each function that applications may call, one list per overload."""
    query = """
        select jsonb_object_agg(proname, versions) from (
            select p.proname, jsonb_agg(pg_get_function_identity_arguments(p.oid) order by p.oid) as versions
              from pg_proc p where p.pronamespace = 'holdfast'::regnamespace
               and has_function_privilege('holdfast_app', p.oid, 'execute') group by p.proname) granted"""
    found: dict[str, list[str]] = json.loads(database.ask_owner(query))
    return {
        name: [re.sub(r"\bp_\w+ |, OUT .*", "", text).split(", ") for text in versions]
        for name, versions in found.items()
    }


def test_sql_can_be_called_as_it_was(database: Database) -> None:
    ours = sql_now(database)
    listed = [line.removesuffix(")").partition("(") for line in LISTED["sql"]]
    missing = [
        f"{name}({arguments})"
        for name, _, arguments in listed
        if not any(
            len(arguments) == 0 or version[: arguments.count(",") + 1] == arguments.split(", ")
            for version in ours.get(name, [])
        )
    ]
    assert [line for line in missing if line.partition("(")[0] not in CHANGED_SQL] == []
