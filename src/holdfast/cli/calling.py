"""Calling the server, for commands."""

from holdfast.remote.server import Server as Server
from holdfast.remote.server import calling as calling
