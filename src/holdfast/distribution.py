"""What Holdfast is installed as. On the package index `holdfast` is another project; ours has the name below.

The two cannot share an environment: both bring a package `holdfast`.
"""

NAME = "holdfast-engine"
__version__ = "0.1.0"
"""pyproject.toml reads it from here."""


def install_hint(extra: str) -> str:
    """The command that adds an extra. pip keeps the Holdfast that is installed, wherever it came from."""
    return f"pip install '{NAME}[{extra}]'"
