"""Holdfast: a durable task engine for Python on Postgres."""

from importlib.metadata import version as _version

__all__ = ["__version__"]

__version__ = _version("holdfast")
