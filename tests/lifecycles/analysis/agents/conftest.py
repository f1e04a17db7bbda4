"""Jobs on real files in a folder of their own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.lifecycles.analysis.tools import InputFile, Job

MakeJob = Callable[..., Job]


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """A job on one file with this name and content."""

    def make(filename: str, content: bytes | str | Path, parameters: Mapping[str, Any] | None = None) -> Job:
        folder = tmp_path / "output"
        folder.mkdir(exist_ok=True)
        if isinstance(content, Path):
            return Job(InputFile(content, filename), folder, parameters=parameters or {})
        path = tmp_path / "upload"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Job(InputFile(path, filename), folder, parameters=parameters or {})

    return make
