"""Try for a way to a place: `python -m tests.crash.knock ADDRESS PORT`. The exit code is 0 if somebody opens."""

import socket
import sys

open_within_seconds = 3.0


def main(address: str, port: int) -> int:
    try:
        socket.create_connection((address, port), open_within_seconds).close()
    except OSError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
