"""A process that holds the embedded server until its standard input closes; needs none of our dependencies.

python holder_process.py SRC HOME BINDIR
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from holdfast.postgres.embedded import Embedded

with Embedded(Path(sys.argv[2]), bindir=Path(sys.argv[3])) as server:
    print(server.owner_url(), flush=True)  # noqa: T201
    sys.stdin.read()
