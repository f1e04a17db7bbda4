"""The newsroom: feeds are read, sorted, softened and summed up in a brief; then the brief is judged, and tuned."""

from collections.abc import Callable
from typing import Any

from holdfast.kernel.settings import Settings


def add_stages(stage: Callable[..., Any], settings: Callable[[], Settings]) -> None:
    """Add the stages to a pipeline."""
