"""Holdfast: a durable task engine for Python on Postgres.

The public names are imported when they are first used: commands start fast, and the watchdog of the embedded Postgres
passes through here with nothing but the standard library.
"""

from importlib.metadata import version

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version("holdfast")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
