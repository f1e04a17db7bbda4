"""Looking at something until it has ended: again soon while it moves, and with a reason while it does not."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import ServerUnreachable

if TYPE_CHECKING:
    from holdfast.cli.picture import Picture

OUTCOMES = {
    "COMPLETED": "done", "PARTIAL": "partial", "PARTIAL_COMPLETE": "partial", "FAILED": "failed",
    "CANCELLED": "cancelled", "CANCELED": "cancelled",
}  # fmt: skip
soonest_seconds = 0.2
latest_seconds = 1.0
wonder_after_seconds = 3.0
wonder_again_seconds = 5.0
away_most_seconds = 300.0

Seen = dict[str, Any]


async def poll(
    look: Callable[[], Awaitable[Seen]],
    picture: "Picture",
    patience: timedelta | None,
    *,
    reason: Callable[[Seen], Awaitable[str]],
    remark: Callable[[Seen], str] = lambda _: "",
) -> Seen:
    """What is looked at once it has ended, or as it is when patience does.

    remark: what there is to say whenever it has moved. reason: asked when it has not for a while. Raises
    ServerUnreachable for a server that stays away.
    """
    time = asyncio.get_running_loop().time
    over = None if patience is None else time() + patience.total_seconds()
    seen, pause, wonder_at = None, soonest_seconds, 0.0
    away_since = None
    while True:
        try:
            now = await look()
            away_since = None
        except ServerUnreachable:  # it may only be starting anew
            away_since = away_since or time()
            if time() >= min(over or math.inf, away_since + away_most_seconds):
                raise
            picture.note("The server does not answer. It is asked again; what has begun goes on when it is back.")
            continue
        picture.show(now)
        if now["status"] in OUTCOMES or (over is not None and time() >= over):
            return now
        if now != seen:
            seen, pause, wonder_at = now, soonest_seconds, time() + wonder_after_seconds
            picture.note(remark(now))
        elif time() >= wonder_at:
            wonder_at = time() + wonder_again_seconds
            picture.note(await reason(now))
        pause = min(pause * 1.3, latest_seconds)
        await asyncio.sleep(pause if over is None else max(0, min(pause, over - time())))
