"""No name is made of a word that says nothing here: what it means has a better one in docs/reference/glossary.md.

Names of Python are taken from its syntax tree, those of SQL from what is neither comment nor text; files and folders
count too. A name is split at `_` and at capitals. Where such a word is the subject's own, ALLOWED says why.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench", "examples")
DIALECT = "told said shown heed desk pulse silence chance room rooms door doors word words keeper turn turns front"
UNWANTED = frozenset(DIALECT.split(" "))

ALLOWED: dict[str, tuple[str, str]] = {
    "src/holdfast/apps/agents/profiler/": ("words", "`missing.words` is a field of profile.json"),
    "src/holdfast/apps/demo/": ("word", "a text is counted word by word"),
    "src/holdfast/apps/documents/chunk.py": ("word words", "chunks are measured in words of a text"),
    "src/holdfast/apps/documents/embedders/": ("word", "WordLlama is a library"),
    "src/holdfast/apps/documents/entities.py": ("word words", "names of people and firms are words of a text"),
    "src/holdfast/apps/documents/extract/plain.py": ("front", "front matter is what begins a Markdown file"),
    "src/holdfast/apps/documents/extract/word.py": ("word", "documents of Word"),
    "src/holdfast/apps/newsroom/": ("word words", "the newsroom reads words of articles"),
    "src/holdfast/lifecycles/ingest/migrations/": ("words", "the words of a chunk, a column of stored data"),
    "src/holdfast/lifecycles/ingest/sql/search.sql": ("word words", "chunks are found by their words"),
    "src/holdfast/apps/providers/local/speech.py": ("word words", "the word error rate measures how speech is heard"),
    "tests/providers/test_local_speech.py": ("word words", "the word error rate is the measure of speech models"),
    "src/holdfast/engine/migrations/": (
        "chance",
        "an attribute of the type holdfast.lease, written by an applied migration",
    ),
    "src/holdfast/engine/task.py": ("chance", "last_chance is that attribute"),
    "src/holdfast/worker/runner_process.py": ("chance", "last_chance is that attribute"),
    "tests/promises/test_workers.py": ("chance", "last_chance is that attribute"),
    "src/holdfast/engine/sql/budget.sql": ("told", "an argument of holdfast.spend that applications may name"),
    "src/holdfast/engine/sql/installed.sql": ("room", "a column of the ledger of migrations: stored data"),
    "src/holdfast/engine/sql/settle.sql": ("turn", "holdfast.turn is a public name"),
    "src/holdfast/cli/search.py": ("word", "the words of the query are marked in a passage"),
    "src/holdfast/cli/batch_results.py": ("word words", "the word error rate measures how speech is heard"),
    "src/holdfast/cli/project/": ("word words", "the sample application counts the words of a text"),
    "tests/lifecycles/ingest/": ("word words", "chunks are measured in words of a text; WordLlama is a library"),
    "tests/lifecycles/pipeline/newsroom/": ("word words", "the newsroom reads words of articles"),
    "tests/cli/leaflets.py": ("front", "the front page of a leaflet"),
}
"""A path or the beginning of one: the words that are its subject's own, and the reason."""

tracked = subprocess.run(
    ["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=False
).stdout.split()
in_a_clone = pytest.mark.skipif(not tracked, reason="not a git clone")


SUSPECT = re.compile(
    rf"(?:(?<![A-Za-z])(?i:{'|'.join(UNWANTED)})|{'|'.join(one.title() for one in UNWANTED)})(?![a-z])"
)


@cache
def parts_of(name: str) -> set[str]:
    """`readHTTPWord_2` is made of read, http and word."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)}


def names_in_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg() | ast.keyword():
                yield node.arg or ""
            case ast.Name():
                yield node.id
            case ast.Attribute():
                yield node.attr
            case ast.alias():
                yield node.asname or node.name
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                yield node.name or ""


def names_in_sql(text: str) -> Iterator[str]:
    yield from re.findall(r"[A-Za-z_]\w*", re.sub(r"--[^\n]*|'(?:[^']|'')*'", " ", text))


def names_in(path: str) -> Iterator[str]:
    """Those of the file, and those that the file has in it."""
    yield from PurePath(path).parts
    reader = {".py": names_in_python, ".sql": names_in_sql}.get(PurePath(path).suffix)
    if reader:
        yield from reader((ROOT / path).read_text())


def unwanted_in(path: str) -> set[str]:
    allowed = {part for start, (parts, _) in ALLOWED.items() if path.startswith(start) for part in parts.split()}
    unwanted = UNWANTED - allowed
    text = path + ((ROOT / path).read_text() if path.endswith((".py", ".sql")) else "")
    if not SUSPECT.search(text):  # parsing is what costs
        return set()
    return {name for name in names_in(path) if parts_of(name) & unwanted}


@in_a_clone
@pytest.mark.parametrize("folder", FOLDERS)
def test_names_say_what_they_mean(folder: str) -> None:
    paths = [path for path in tracked if path.startswith(f"{folder}/") and (ROOT / path).exists()]
    assert paths
    found = [f"{path}: {name}" for path in paths for name in sorted(unwanted_in(path))]
    assert not found, "\n".join(["These names have a word of DIALECT in them; take a plainer one.", *found])


@in_a_clone
def test_every_exception_is_needed() -> None:
    for start, (parts, _) in ALLOWED.items():
        inside = [path for path in tracked if path.startswith(start) and (ROOT / path).exists()]
        found = {part for path in inside for name in names_in(path) for part in parts_of(name)}
        assert set(parts.split()) <= found, start


def test_a_name_is_split_at_underlines_and_capitals() -> None:
    assert parts_of("readHTTPWord_2") == {"read", "http", "word"}
    assert "told" in parts_of("p_told")
    assert list(names_in_sql("select told from x -- said\n where y = 'it''s shown'")) == [
        "select", "told", "from", "x", "where", "y",
    ]  # fmt: skip
