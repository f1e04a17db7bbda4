"""Conventions of the code and the pages that a contributor would otherwise have to remember."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast
from holdfast import errors
from holdfast.distribution import NAME
from holdfast.settings import SETTINGS

ROOT = Path(__file__).parents[2]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PACKAGE = ROOT / "src/holdfast"
BANNED_NAMES = {"utils", "helpers", "common", "manager", "misc", "base"}

tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
in_a_clone = pytest.mark.skipif(not tracked, reason="not a git clone")


def test_the_public_names_are_these() -> None:
    assert holdfast.__all__ == [
        "Fatal", "Handle", "Holdfast", "Later", "Moved", "Partial", "RateLimited", "SchemaInvalid", "Task",
        "TaskCancelled", "TaskFailed", "Transient", "__version__", "ask", "cancelled", "current", "output", "progress",
        "spend", "step", "usage",
    ]  # fmt: skip
    assert all(getattr(holdfast, name) for name in holdfast.__all__)


def test_the_distribution_has_one_name_and_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["dynamic"]) == (NAME, ["version"])
    unwanted = re.compile(r"pip install '?\"?holdfast(?!-engine)\b|\bholdfast\[[a-z]")
    texts = [ROOT / name for name in tracked if name.endswith((".py", ".md", ".toml")) and name != "CHANGELOG.md"]
    assert [path for path in texts if path != Path(__file__) and unwanted.search(path.read_text())] == []


def test_the_engine_is_imported_without_what_applications_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"[^a-z0-9-]", one)[0].replace("-", "_") for many in extras.values() for one in many}
    script = (
        "import sys, holdfast, holdfast.api, holdfast.sdk.client, holdfast.worker, holdfast.cli;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {*names, "docx", "sklearn"}


def test_no_module_has_a_name_that_says_nothing() -> None:
    paths = (ROOT / "src").rglob("*")
    assert not [path for path in paths if path.stem.lower() in BANNED_NAMES]


def test_every_module_says_what_it_is() -> None:
    modules = [path for path in (ROOT / "src").rglob("*.py") if path.read_text().strip()]
    assert [str(path) for path in modules if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_nothing_is_taken_from_the_generator_that_handlers_may_seed() -> None:
    taken = re.compile(
        r"^from random import(?! (?:Random|SystemRandom)$)|\brandom\.(?!Random\b|SystemRandom\b)\w+\(", re.M
    )
    sources = (ROOT / "src/holdfast").rglob("*.py")
    assert [path for path in sources if path.parts[-2] != "demo" and taken.search(path.read_text())] == []


@pytest.mark.parametrize("module", ["postgres.embedded.watchdog", "settings"])
def test_what_every_start_imports_needs_nothing_but_the_standard_library(module: str) -> None:
    script = (
        f"import sys; sys.path.insert(0, sys.argv[1]); import holdfast.{module};"
        "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'__main__'})"
    )
    command = [sys.executable, "-I", "-S", "-c", script, str(ROOT / "src")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["holdfast"]


def test_every_setting_has_its_line_in_the_reference() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    assert [name for name in SETTINGS if f"`HOLDFAST_{name.upper()}`" not in page] == []


def test_every_error_has_its_entry_in_the_reference() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text()
    names = [
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.HoldfastError)
    ]
    assert [name for name in names if f"::: holdfast.errors.{name}\n" not in page] == []


@in_a_clone
def test_every_page_of_the_documentation_can_be_reached() -> None:
    navigation = (ROOT / "zensical.toml").read_text()
    pages = [Path(name).relative_to("docs") for name in tracked if name.startswith("docs/") and name.endswith(".md")]
    assert [page for page in pages if f'"{page}"' not in navigation] == []


@in_a_clone
def test_every_link_between_pages_leads_somewhere() -> None:
    broken = []
    for page in (ROOT / name for name in tracked if name.endswith(".md")):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


@in_a_clone
def test_every_path_that_a_page_names_exists() -> None:
    """A path may begin anywhere: `cli/look.py` is src/holdfast/cli/look.py."""
    missing = []
    for page in (name for name in tracked if name.endswith(".md") and (ROOT / name).exists()):
        for path in re.findall(r"`([a-z_]+/[\w./-]+\.(?:py|sql))`", (ROOT / page).read_text()):
            if "NNNN" not in path and not any(f"/{one}".endswith(f"/{path}") for one in tracked):
                missing.append(f"{page}: {path}")
    assert missing == []


@in_a_clone
def test_no_message_in_a_sequence_diagram_is_cut_by_a_semicolon() -> None:
    """Mermaid takes it for the end of the line, and shows an error in place of the picture."""
    diagrams = re.compile(r"```mermaid\nsequenceDiagram\n(.*?)```", re.S)
    pages = [name for name in tracked if name.endswith(".md")]
    assert [name for name in pages for drawn in diagrams.findall((ROOT / name).read_text()) if ";" in drawn] == []


def test_every_package_is_on_the_map_of_contributing() -> None:
    packages = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    assert [name for name in packages if f"{name}/" not in CONTRIBUTING.read_text()] == []
