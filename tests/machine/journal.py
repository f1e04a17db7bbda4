"""What was called and what it answered, told so that two runs of one history read the same.

The ids of tasks and tokens are told by the order in which they appeared: `#3` is the third task, `t7` a token.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from holdfast.engine.task import Lease
from tests.machine.seen import Row

ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


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

    def tasks(self) -> set[UUID]:
        """Those that it moved; or else those that it was about."""
        return {event["task_id"] for event in self.events} or {UUID(found) for found in ID.findall(str(self))}

    def __str__(self) -> str:
        given = [*map(describe, self.given), *(f"{name}={describe(value)}" for name, value in self.named.items())]
        return f"{self.verb}({', '.join(given)}) = {describe(self.answer)}{''.join(map(moved, self.events))}"


def describe(value: Any) -> str:
    """A value in few words."""
    match value:
        case UUID() | datetime() | timedelta():
            return str(value)
        case Lease():
            return f"lease({value.task_id}, {value.attempt}, {value.token}, {value.state} until {value.expires_at})"
        case list() | tuple():
            return f"[{', '.join(map(describe, value))}]"
        case dict():
            return f"{{{', '.join(f'{describe(key)}: {describe(one)}' for key, one in value.items())}}}"
    if not is_dataclass(value):
        return repr(value)
    written = {field.name: getattr(value, field.name) for field in fields(value) if is_written(field, value)}
    return f"{type(value).__name__}({', '.join(f'{name}={describe(one)}' for name, one in written.items())})"


def is_written(field: Field[Any], value: Any) -> bool:
    return bool(getattr(value, field.name) != field.default)


def moved(event: Row) -> str:
    return (
        f"\n    {event['task_id']} v{event['version']}: "
        f"{event['from_state'] or 'nothing'} -{event['verb']}-> {event['to_state']}, attempt {event['attempt']}"
    )


class Names:
    """Names for ids, in the order in which they appear; the tasks are given in theirs."""

    def __init__(self, tasks: Iterable[UUID]) -> None:
        self._known = {str(task): f"#{place}" for place, task in enumerate(tasks)}

    def put_into(self, text: object) -> str:
        return ID.sub(lambda found: self._known.setdefault(found[0], f"t{len(self._known)}"), str(text))


def tell(journal: Sequence[Entry], names: Names) -> str:
    return "\n".join(f"{entry.operation:>6} {names.put_into(entry)}" for entry in journal)


def digest(journal: Sequence[Entry], tasks: Iterable[UUID]) -> str:
    """Equal for two histories in which the same was called, answered and moved."""
    return hashlib.sha256(tell(journal, Names(tasks)).encode()).hexdigest()


def about(journal: Sequence[Entry], whom: Iterable[UUID]) -> list[Entry]:
    """The calls that told of these tasks, and of each what it told of them."""
    wanted = {str(task) for task in whom}
    texts = []
    for entry in journal:
        if wanted & set(ID.findall(str(entry))):
            events = [event for event in entry.events if str(event["task_id"]) in wanted]
            texts.append(
                replace(entry, given=kept(entry.given, wanted), answer=kept(entry.answer, wanted), events=events)
            )
    return texts


def kept(values: Any, wanted: Set[str]) -> Any:
    """Without the parts that tell of other tasks only."""
    if not isinstance(values, (list, tuple)):
        return values
    return [value for value in values if not (found := set(ID.findall(describe(value)))) or found & wanted]
