"""Real files, as they are uploaded, and agents run on them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.lifecycles.analysis.tools import InputFile, Job


def write_csv(path: Path, columns: Mapping[str, Sequence[object]]) -> InputFile:
    """A CSV file with these columns, all of the same length."""
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    path.write_text("".join(",".join(_field(cell) for cell in row) + "\n" for row in rows), encoding="utf-8")
    return InputFile(path, path.name)


def _field(cell: object) -> str:
    return "" if cell is None else '"' + str(cell).replace('"', '""') + '"'


class Run:
    """Runs one agent on files in a folder of the test."""

    def __init__(self, folder: Path, agent: Callable[[Job], None], section: str, output: str) -> None:
        self.folder, self.agent, self.section, self.output = folder, agent, section, output
        self.outputs = folder / "none"
        self.runs = 0

    def __call__(
        self,
        primary: Mapping[str, Sequence[object]],
        baseline: Mapping[str, Sequence[object]] | None = None,
        **options: object,
    ) -> dict[str, Any]:
        """What the agent's JSON says of these columns."""
        self.runs += 1
        self.outputs = self.folder / f"run{self.runs}"
        self.outputs.mkdir()
        other = write_csv(self.folder / f"baseline{self.runs}.csv", baseline) if baseline is not None else None
        own = write_csv(self.folder / f"table{self.runs}.csv", primary)
        self.agent(Job(own, self.outputs, other, {self.section: options} if options else {}))
        report: dict[str, Any] = json.loads((self.outputs / self.output).read_text())
        return report

    def written(self) -> str:
        """Everything that the last run wrote."""
        return "\n".join(path.read_text() for path in sorted(self.outputs.iterdir()))
