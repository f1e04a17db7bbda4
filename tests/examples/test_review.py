"""The test that CONTRIBUTING shows."""

from examples.review import REVIEW

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.testing import Clock


async def test_a_draft_that_is_not_handed_in_for_a_week_is_withdrawn(store: Store, clock: Clock) -> None:
    await store.declare(REVIEW)
    (made,) = await store.submit(Submission(lifecycle="review"))
    assert made.id
    clock.advance(days=7)
    await store.sweep()
    assert (await store.read(made.id))["state"] == "WITHDRAWN"
