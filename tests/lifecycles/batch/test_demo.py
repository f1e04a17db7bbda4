"""The sample batches of `holdfast up --demo`: calls are transcribed on this machine, one of them is cut off."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.apps.demo import samples, transcribe_calls
from holdfast.lifecycles.batch.planning import read_prompts
from holdfast.lifecycles.batch.store import Batches
from holdfast.testing.engine import Engine


@pytest.mark.deep
@pytest.mark.skipif(not samples.can_transcribe, reason="the speech model is not installed")
@pytest.mark.timeout(180)  # a model is loaded, on a machine that may be busy
def test_calls_are_transcribed_and_one_that_is_cut_off_is_reported(holdfast: Engine) -> None:
    made = UUID(holdfast.run(transcribe_calls, 4, cut_off=True, crash_after="brought").result)
    holdfast.drain()
    batch: Any = holdfast.call(Batches.over(holdfast.store).batch(made))
    assert (batch.status, batch.manifest.ok, batch.manifest.failed) == ("PARTIAL_COMPLETE", 3, 1)
    assert "cut-off.wav: " in batch.jobs[0].error
    assert holdfast.call(holdfast.store.verify()) == []


def test_the_questions_are_short_and_others_the_next_time(tmp_path: Path) -> None:
    found = [read_prompts(samples.write_questions(tmp_path, number)[0], "q.jsonl", 0)[0] for number in (1, 2)]
    assert [len(each) for each in found] == [2, 2]
    assert found[0] != found[1]
    assert all(one.body["max_tokens"] == samples.answer_tokens for each in found for one in each)
