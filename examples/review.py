"""A lifecycle of one's own: a document is handed in, checked by a worker, approved by a person.

.venv/bin/python examples/review.py                                # declare it, and take one document through it
.venv/bin/holdfast lifecycle draw examples/review.py:REVIEW -o review.svg
"""

import asyncio
from datetime import timedelta

from holdfast.engine.lifecycle.model import Lifecycle, after, final, owner, work
from holdfast.engine.opening import open_store
from holdfast.engine.task import Moved, Submission
from holdfast.errors import MoveRefused

REVIEW = Lifecycle(
    "review",
    start="DRAFT",
    cancel="WITHDRAWN",  # from every state that is not final
    fail="BROKEN",  # from every state in which a worker may hold the task
    states=[
        owner("DRAFT", acts={"hand_in": "CHECKING"}, limit=after(days=7, to="WITHDRAWN")),
        work("CHECKING", to=["WAITING"], limit=after(minutes=10, to="BROKEN")),
        owner("WAITING", acts={"approve": "PUBLISHED", "send_back": "DRAFT"}, limit=after(days=3, to="DRAFT")),
        final("PUBLISHED", "done"),
        final("BROKEN", "failed"),
        final("WITHDRAWN", "cancelled"),
    ],
)


async def main() -> None:
    async with open_store() as store:
        print("declared, version", await store.declare(REVIEW))
        (made,) = await store.submit(Submission(payload={"title": "On leases"}, lifecycle="review"))
        task = str(made.id)
        try:
            await store.act(task, "approve")
        except MoveRefused as refused:
            print("refused:", refused.detail, refused.fix)
        print("handed in:", await store.act(task, "hand_in"))

        (lease,) = await store.claim(["review"], lasting=timedelta(seconds=30), worker="a worker")
        await store.keep(lease, "spelling", {"mistakes": 0})
        print("checked:", (await store.finish(lease, Moved("WAITING"))).state)

        print("why:", (await store.explain(task)).sentence)
        print("approved:", await store.act(task, "approve"))
        for event in await store.events(task):
            print(f"  {event.at:%H:%M:%S}  {event.verb:<12} {event.from_state:>9} -> {event.to_state}")
        print("problems in its history:", await store.verify([task]))


if __name__ == "__main__":
    asyncio.run(main())
