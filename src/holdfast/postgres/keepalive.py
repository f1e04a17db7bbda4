"""Links that fall silent: how long a connection waits for a host of which nothing is heard any more.

By default a machine keeps it for a quarter of an hour, and for two hours if nothing is sent. A host that is only busy
still confirms what it gets: this does not limit how long an answer may take.
"""

import socket

silence_seconds = 5
SILENCE = {
    "TCP_KEEPIDLE": silence_seconds, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": silence_seconds,
    "TCP_USER_TIMEOUT": silence_seconds * 1000,
}  # fmt: skip


def enable_keepalive(way: socket.socket) -> None:
    """Have the connection break when nothing comes back from the other host any more, not even a confirmation."""
    if way.family not in (socket.AF_INET, socket.AF_INET6):
        return
    way.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in SILENCE.items():
        if number := getattr(socket, option, None):  # some are known to Linux alone
            way.setsockopt(socket.IPPROTO_TCP, number, value)
