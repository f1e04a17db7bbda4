"""The provider of the documentation is that of examples/batch.py, and runs as it is printed."""

import re
from pathlib import Path
from typing import Any

from examples.batch import TypingPool

from holdfast import Holdfast
from holdfast.batch import Job
from holdfast.lifecycles.batch.store import Batches
from holdfast.testing import Engine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "providers" / "own.md").read_text()
MONDAY = "https://example.org/monday.wav"


def test_the_page_prints_the_example_and_its_test_passes(holdfast: Engine, tmp_path: Path) -> None:
    provider, test = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    body = provider[provider.index("class TypingPool") :].rstrip()
    assert body in (ROOT / "examples" / "batch.py").read_text()
    names: dict[str, Any] = {"__name__": "mine"}
    exec(compile(provider + test, "own.md", "exec"), names)  # noqa: S102
    names["test_a_recording_is_typed"](holdfast, tmp_path)


class Typists(TypingPool):
    """They type when they are asked about it for the second time."""

    asked = 0

    async def poll(self, job: Job) -> Any:
        self.asked += 1
        if self.asked == 2:
            self.sheet(job, "txt").write_text("Good morning.")
        return await super().poll(job)


def test_what_is_typed_is_paid_and_comes_back(holdfast: Engine, tmp_path: Path) -> None:
    pool = Typists(tmp_path)
    run = holdfast.run(Holdfast().batch("transcription", pool), urls=[MONDAY])
    assert (run.state, run.value["ok"], pool.asked) == ("COMPLETED", 1, 2)
    batch: Any = holdfast.call(Batches.over(holdfast.store).batch(run.handle.id))
    assert (batch.cost_cents, batch.jobs[0].external_job_id) == (25, batch.jobs[0].token)
    assert batch.provider_state["jobs"][0]["result"][0]["output"] == {"transcript": "Good morning."}


def test_the_page_of_batches_offers_this_machine() -> None:
    (text,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "lifecycles" / "batch.md").read_text(), flags=re.DOTALL
    )
    names: dict[str, Any] = {"__name__": "mine"}
    exec(compile(text, "batch.md", "exec"), names)  # noqa: S102
    assert names["transcribe"].published()["offer"]["limit_seconds"] == 3600
