"""The host of a database: `python -m tests.crash.database_host HOME ADDRESS NETWORK`, until its standard input closes.

Whoever comes from that network is asked for a password.
"""

import sys
from pathlib import Path

from holdfast.postgres.embedded import Embedded
from tests.crash.export import SETTINGS


def main(home: Path, address: str, network: str) -> None:
    home.mkdir()
    access = home / "access.conf"
    access.write_text(f"local all all scram-sha-256\nhost all all {network} scram-sha-256\n")
    access.chmod(0o644)
    settings = {**SETTINGS, "listen_addresses": address, "hba_file": str(access), "max_connections": "150"}
    with Embedded(home, settings=settings):
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4])
