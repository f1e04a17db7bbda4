"""A program that runs a server for as long as somebody uses it: until nobody has the lock of its folder any more.

A lock ends with the process that has it, so this holds for runs that are killed too. See tests/sharing.py.
"""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path


def guard(folder: Path, command: list[str]) -> None:
    with subprocess.Popen(command, cwd=folder), (folder / "users.lock").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        (folder / "started.json").unlink(missing_ok=True)  # whoever comes now starts another
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    guard(Path(sys.argv[1]), sys.argv[2:])
