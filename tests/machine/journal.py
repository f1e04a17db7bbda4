"""What was called and what it answered, told so that two runs of one history read the same.

The ids of tasks and tokens are told by the order in which they appeared: `#3` is the third task, `t5` the fifth token.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.machine.seen import Row

ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NOISE = re.compile(r"UUID\('([#t0-9]+)'\)|datetime\.|, tzinfo=\w+(?:\.utc)?|payload=\{\}")


@dataclass
class Entry:
    """One call."""

    operation: int
    verb: str
    given: Sequence[Any]
    named: Mapping[str, Any]
    answer: Any = None
    events: Sequence[Row] = ()

    @property
    def size(self) -> int:
        """How many tasks it has answered for, each of which is checked by itself."""
        answers = self.answer if isinstance(self.answer, tuple) else (self.answer,)
        return max(1, sum(len(one) for one in answers if isinstance(one, (list, dict))))

    def raw(self) -> str:
        given = [*map(repr, self.given), *(f"{name}={value!r}" for name, value in self.named.items())]
        return f"{self.verb}({', '.join(given)}) = {self.answer!r}{''.join(map(moved, self.events))}"


def moved(event: Row) -> str:
    return (
        f"\n    {event['task_id']} v{event['version']}: "
        f"{event['from_state'] or 'nothing'} -{event['verb']}-> {event['to_state']}, attempt {event['attempt']}"
    )


def tell(journal: Sequence[Entry], tasks: Iterable[UUID]) -> list[str]:
    """Every call of a history, with the ids replaced. `tasks` are all of it, in their order."""
    known = {str(task): f"#{place}" for place, task in enumerate(tasks)}

    def name(found: re.Match[str]) -> str:
        if found[0] not in known:
            known[found[0]] = f"t{len(known)}"
        return known[found[0]]

    return [f"{entry.operation:>6} " + NOISE.sub(r"\1", ID.sub(name, entry.raw())) for entry in journal]


def digest(journal: Sequence[Entry], tasks: Iterable[UUID]) -> str:
    """Equal for two histories in which the same was called, answered and moved."""
    return hashlib.sha256("\n".join(tell(journal, tasks)).encode()).hexdigest()


def about(journal: Sequence[Entry], tasks: Sequence[UUID], whom: Iterable[UUID], most: int) -> str:
    """The last calls that told of these tasks."""
    wanted = {str(task) for task in whom}
    lines = tell(journal, tasks)
    told = [line for entry, line in zip(journal, lines, strict=True) if wanted & set(ID.findall(entry.raw()))]
    return "\n".join(told[-most:])
