"""Keepalive: how long a connection waits for a host that does not answer any more.

By default a machine keeps it for a quarter of an hour, and for two hours if nothing is sent. A host that is only busy
still confirms what it gets: this does not limit how long an answer may take.
"""

import socket

unanswered_seconds = 5
OPTIONS = {
    "TCP_KEEPIDLE": unanswered_seconds, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": unanswered_seconds,
    "TCP_USER_TIMEOUT": unanswered_seconds * 1000,
}  # fmt: skip


def enable_keepalive(connection: socket.socket) -> None:
    """Have the connection break when nothing comes back from the other host any more, not even a confirmation."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in OPTIONS.items():
        if number := getattr(socket, option, None):  # some are known to Linux alone
            connection.setsockopt(socket.IPPROTO_TCP, number, value)
