"""A process that holds the embedded server until its standard input closes. Run with any Python, without our packages:

python holder.py SRC HOME [BINDIR]
"""

import importlib.util
import sys
from pathlib import Path

source, home = Path(sys.argv[1]), Path(sys.argv[2])
bindir = Path(sys.argv[3]) if len(sys.argv) > 3 else None


def load(name: str, path: Path) -> None:
    """Load a module of ours without the package around it, whose dependencies this Python may lack."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


for package in ("holdfast", "holdfast.kernel"):
    sys.modules[package] = type(sys)(package)
    sys.modules[package].__path__ = []
load("holdfast.errors", source / "holdfast/errors.py")
load("holdfast.kernel.watchdog", source / "holdfast/kernel/watchdog.py")
sys.modules["holdfast.kernel"].watchdog = sys.modules["holdfast.kernel.watchdog"]  # type: ignore[attr-defined]
load("holdfast.kernel.embedded", source / "holdfast/kernel/embedded.py")

from holdfast.kernel.embedded import Embedded  # noqa: E402

with Embedded(home, bindir=bindir) as server:
    print(server.owner_url(), flush=True)  # noqa: T201
    sys.stdin.read()
