"""A test that hangs for good ends its process, which first prints where every thread is.

pytest-timeout interrupts a test once. What hangs after that (a thread that never ends, a fixture that waits for it)
would hold up the whole run. xdist names the test whose process ended, and goes on with a new process.
"""

import contextlib
import faulthandler
import os
from collections.abc import Generator, Iterator

import pytest

grace_seconds = 60.0


class Hangs:
    """The plugin: setting up, running and tearing down may each take as long as the test, and a grace."""

    def __init__(self, config: pytest.Config, grace_seconds: float = grace_seconds) -> None:
        self.default_seconds = float(config.getini("timeout"))
        self.grace_seconds = grace_seconds
        self.stderr = os.dup(2)  # what runs later has 2 captured

    @contextlib.contextmanager
    def guard(self, seconds: float) -> Iterator[None]:
        faulthandler.dump_traceback_later(seconds + self.grace_seconds, exit=True, file=self.stderr)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def seconds_for(self, item: pytest.Item) -> float:
        mark = item.get_closest_marker("timeout")
        return float(mark.args[0]) if mark else self.default_seconds

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        with self.guard(self.seconds_for(item)):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        with self.guard(self.seconds_for(item)):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        with self.guard(self.seconds_for(item)):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        with self.guard(self.default_seconds):
            yield

    def pytest_unconfigure(self) -> None:
        """Python itself waits for the threads that are left."""
        faulthandler.dump_traceback_later(self.grace_seconds, exit=True, file=self.stderr)
