"""Ground to test on: a real Postgres for every test, with a clock that is moved instead of waited for."""

from holdfast.testing.clock import Clock
from holdfast.testing.ground import Database, Ground

__all__ = ["Clock", "Database", "Ground"]
