"""A lifecycle as a picture: a table for terminals and Markdown, a Mermaid diagram, an SVG.

Every picture is drawn from the declaration alone, shows all its moves and limits, and is the same each time. Two things
are written shorter than they are declared: a worker's own move `to:STATE` is called `to`, as one sees where it leads;
and where cancelling leads to the same state from everywhere, the two diagrams say so once instead of drawing an arrow
from each state. Text is measured by estimate, on the safe side: a font that is far wider than usual leaves its box.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from html import escape
from itertools import accumulate, pairwise
from statistics import fmean

from holdfast.engine.lifecycle.model import Lifecycle, Limit, State

# Of each actor and each outcome: fill and border in the light, then in the dark.
_COLOURS = {
    "owner": ("#dbeafe", "#2563eb", "#172554", "#60a5fa"),
    "worker": ("#ede9fe", "#7c3aed", "#2e1065", "#a78bfa"),
    "tasks": ("#ccfbf1", "#0d9488", "#042f2e", "#2dd4bf"),
    "clock": ("#fef3c7", "#d97706", "#451a03", "#fbbf24"),
    "done": ("#f8fafc", "#16a34a", "#1e293b", "#4ade80"),
    "partial": ("#f8fafc", "#ca8a04", "#1e293b", "#facc15"),
    "failed": ("#f8fafc", "#dc2626", "#1e293b", "#f87171"),
    "cancelled": ("#f8fafc", "#64748b", "#1e293b", "#94a3b8"),
}
_STYLE = """
.hf-name,.hf-verb{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace} .hf-name{font-weight:bold}
.hf-word{font:12px system-ui,-apple-system,'Segoe UI',sans-serif} .hf-box{stroke-width:1.4} .hf-now{stroke-width:4}
.hf-line{fill:none;stroke-width:1.4;stroke:#64748b} .hf-dashed{stroke-dasharray:5 4} .hf-head{fill:#64748b}
.hf-paper{fill:#fff} .hf-name,.hf-verb{fill:#0f172a} .hf-word{fill:#475569} LIGHT
@media(prefers-color-scheme:dark){ .hf-line{stroke:#94a3b8} .hf-head{fill:#94a3b8}
.hf-paper{fill:#0f172a} .hf-name,.hf-verb{fill:#f1f5f9} .hf-word{fill:#cbd5e1} DARK }
"""
for _scheme, _at in (("LIGHT", 0), ("DARK", 2)):
    _rules = [f".hf-{name}{{fill:{colours[_at]};stroke:{colours[_at + 1]}}}" for name, colours in _COLOURS.items()]
    _STYLE = _STYLE.replace(_scheme, " ".join(_rules))
_CANCEL_NOTE = "cancel leads to {} from every state that is not final"
# What Mermaid takes for keywords where a state is named, in upper and lower case.
_KEYWORDS = "accdescr acctitle as class classdef click default end hide href note scale state statediagram style"


def format_duration(duration: timedelta) -> str:
    """The duration in the largest unit that needs no fraction: 26 h, 15 min, 7 d, 90 s."""
    for unit, name in ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "min")):
        if not duration % unit:
            return f"{duration // unit} {name}"
    return f"{duration.total_seconds():.6f}".rstrip("0").rstrip(".") + " s"


def matrix(lifecycle: Lifecycle) -> str:
    """The moves as a Markdown table that is aligned for terminals: a row is where one is, a column where one gets."""
    arrows = {(arrow.source, arrow.target): arrow.labels for arrow in _arrows(lifecycle)}
    entered = [state.name for state in lifecycle.states if any(target == state.name for _, target in arrows)]
    rows = [["from \\ to", "acts next", *entered]]
    notes = [f"- Starts: {', '.join(f'{start.target} ({start.verbs[0]})' for start in _starts(lifecycle))}"]
    notes += [f"- Ends: {', '.join(f'{state.name} ({state.outcome})' for state in lifecycle.states if state.outcome)}"]
    for state in lifecycle.states:
        if not state.outcome:
            cells = [", ".join(arrows.get((state.name, target), [])) for target in entered]
            rows.append([state.name, state.actor, *(cell.replace("|", "\\|") for cell in cells)])
        if state.limit and (more := _fine_print(state.limit)):
            notes.append(f"- Limit of {state.name}: {', '.join(more)}")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    table = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*(f"| {row} |" for row in table), "", *notes, ""])


def mermaid(lifecycle: Lifecycle) -> str:
    """The lifecycle as the source of a Mermaid state diagram."""
    # A full stop is in no state's name, so this cannot be the name of another one.
    names = {state.name: state.name for state in lifecycle.states}
    names |= {name: f"{name}." for name in names if name.lower() in _KEYWORDS.split()}
    lines = ["stateDiagram-v2", "direction LR"]
    for state in lifecycle.states:
        lines += [f'state "{state.name}" as {names[state.name]}', f"{names[state.name]} : {_who(state)}"]
    names["[*]"], cancelled = "[*]", _common_cancel(lifecycle)
    for arrow in [*_starts(lifecycle), *_arrows(lifecycle, without_cancel=bool(cancelled))]:
        # What could end a label is written as the number of its character.
        escaped = (char if char.isalnum() or char in " _,.-" else f"#{ord(char)};" for char in ", ".join(arrow.labels))
        lines.append(f"{names[arrow.source]} --> {names[arrow.target]} : {''.join(escaped)}")
    lines += [f"{names[state.name]} --> [*]" for state in lifecycle.states if state.outcome]
    if cancelled:
        lines.append(f"note left of {names[cancelled]} : {_CANCEL_NOTE.format(cancelled)}")
    for kind, (fill, border, _, _) in _COLOURS.items():
        if those := [names[state.name] for state in lifecycle.states if kind in (state.actor, state.outcome)]:
            lines.append(f"classDef {kind} fill:{fill},stroke:{border},color:#0f172a")
            lines.append(f"class {','.join(those)} {kind}")
    return "\n    ".join(lines) + "\n"


def svg(lifecycle: Lifecycle, current: str | None = None) -> str:
    """The lifecycle as an SVG image that needs nothing else. Raises ValueError for a `current` that it has not."""
    if current is not None and current not in {state.name for state in lifecycle.states}:
        raise ValueError(f"{lifecycle.name} has no state {current!r}.")
    items = _lay_out(lifecycle, current)
    lines = [line for item in items for line in item.rights]
    moves = [f"{', '.join(arrow.labels)} leads from {arrow.source} to {arrow.target}." for arrow in _arrows(lifecycle)]
    notes = [_CANCEL_NOTE.format(cancelled)] if (cancelled := _common_cancel(lifecycle)) else []
    notes += ["a dashed arrow is a time limit"] if any(line.dashed for line in lines) else []
    width = max([item.x + item.width / 2 for item in items] + [_text_width(note) + _MARGIN for note in notes]) + _MARGIN
    bottom = max(item.y + item.below for item in items)
    height = bottom + _MARGIN + 18 * len(notes) + (6 if notes else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:100%;height:auto">',
        f"<title>The lifecycle {lifecycle.name}{f', now in {current}' if current else ''}</title>",
        f"<desc>It starts in {lifecycle.start}. {escape(' '.join(moves))}</desc>",
        f'<style>{_STYLE}</style><rect class="hf-paper" width="100%" height="100%" rx="10"/>',
        *(_draw_line(line) for line in lines),
        *(_draw_item(item, current) for item in items),
        *(_text("word", _MARGIN, bottom + 26 + 18 * row, note, "start") for row, note in enumerate(notes)),
    ]
    # A label could hold characters that no XML may.
    return "".join(char for char in "\n".join([*parts, "</svg>", ""]) if char.isprintable() or char == "\n")


@dataclass
class _Arrow:
    """All that leads from one state to another."""

    source: str
    target: str
    verbs: list[str] = field(default_factory=list)
    limit: str | None = None

    @property
    def labels(self) -> list[str]:
        return [*self.verbs, self.limit] if self.limit else self.verbs


def _arrows(lifecycle: Lifecycle, *, without_cancel: bool = False) -> list[_Arrow]:
    arrows: dict[tuple[str, str], _Arrow] = {}
    for state in lifecycle.states:
        for move in state.moves:
            if not (without_cancel and move.verb == "cancel"):
                arrow = arrows.setdefault((state.name, move.to), _Arrow(state.name, move.to))
                arrow.verbs.append("to" if move.verb == f"to:{move.to}" else move.verb)
        if limit := state.limit:
            there = limit.to or state.name
            arrow = arrows.setdefault((state.name, there), _Arrow(state.name, there))
            arrow.limit = ("limit " if limit.to else "wakes after ") + format_duration(limit.after)
    return list(arrows.values())


def _starts(lifecycle: Lifecycle) -> list[_Arrow]:
    starts = [_Arrow("[*]", lifecycle.start, ["submit"])]
    return [*starts, _Arrow("[*]", lifecycle.blocked, ["submit_blocked"])] if lifecycle.blocked else starts


def _common_cancel(lifecycle: Lifecycle) -> str | None:
    """Where cancelling leads, if that is the same state from everywhere."""
    targets = {state.target("cancel") for state in lifecycle.states if not state.outcome}
    return targets.pop() if len(targets) == 1 else None


def _fine_print(limit: Limit) -> list[str]:
    renewed = [f"renewed up to {format_duration(limit.renewed_up_to)}"] if limit.renewed_up_to else []
    return renewed + (["a task may bring its own"] if limit.per_task else [])


def _who(state: State) -> str:
    acts = "other tasks act next" if state.actor == "tasks" else f"{state.actor} acts next"
    return f"ends as {state.outcome}" if state.outcome else acts


# The SVG is laid out from left to right. States stand in the even columns, labels in the odd ones between them, and an
# arrow that goes further takes up a place in every column that it crosses. So nothing can lie on anything else: lines
# bend only in the gaps between two columns. Arrows of one kind to the same state share their way once they have met.
_MARGIN, _LINE_HEIGHT, _GAP = 16.0, 16.0, 30.0


@dataclass(eq=False)
class _Item:
    """What takes space in a column: a state, a label, or (if it is neither) the start or an arrow passing through."""

    column: int
    width: float = 0
    above: float = 7
    below: float = 7
    state: State | None = None
    text: str = ""  # of a label; of a state, what leads from it to itself
    key: tuple[str, str] = ("", "")  # of a label, from where to where; of what passes through, to where and which
    lefts: list["_Line"] = field(default_factory=list)
    rights: list["_Line"] = field(default_factory=list)
    x: float = 0
    y: float = 0


@dataclass(eq=False)
class _Line:
    """A piece of an arrow between two neighbouring columns, with its height at both ends."""

    left: _Item
    right: _Item
    back: bool = False
    dashed: bool = False
    pull: float = 1
    start: float = 0
    end: float = 0

    def __post_init__(self) -> None:
        self.left.rights.append(self)
        self.right.lefts.append(self)


def _lay_out(lifecycle: Lifecycle, current: str | None) -> list[_Item]:
    """Everything that is drawn, in its place."""
    cancelled = _common_cancel(lifecycle)
    arrows = _arrows(lifecycle, without_cancel=bool(cancelled))
    loops = {arrow.source: ", ".join(arrow.verbs) for arrow in arrows if arrow.source == arrow.target}
    arrows = [arrow for arrow in arrows if arrow.source != arrow.target]
    numbers = _column_numbers(lifecycle, arrows)
    boxes = {"[*]": _Item(0)}
    for state in lifecycle.states:
        texts, loop = _box_texts(state, current), loops.get(state.name, "")
        width = max([_text_width(text) + 24 for text in texts] + [_text_width(loop) + 60])
        half = len(texts) * _LINE_HEIGHT / 2 + 7
        boxes[state.name] = _Item(numbers[state.name], width, half + (26 if loop else 0), half, state, loop)
    columns: list[list[_Item]] = [[] for _ in range(max(numbers.values()) + 1)]
    for item in boxes.values():
        columns[item.column].append(item)
    for arrow in [*_starts(lifecycle), *arrows]:
        _lay(arrow, boxes, columns)
    if cancelled:
        # It comes from everywhere, so its arrow begins at its label.
        columns[-2].append(_Item(len(columns) - 2, text="cancel", key=("", cancelled)))
        _Line(columns[-2][-1], boxes[cancelled])
    return _place(columns)


def _lay(arrow: _Arrow, boxes: Mapping[str, _Item], columns: list[list[_Item]]) -> None:
    """Lead an arrow through all columns between its two states; one that leads back is laid from its end."""
    source, target, dashed = boxes[arrow.source], boxes[arrow.target], not arrow.verbs
    back = source.column > target.column
    main = not back and not source.rights
    left, last = (target, source) if back else (source, target)
    ready = {last.column: last}
    if arrow.verbs:
        near = source.column + (-1 if back else 1)
        ready[near] = _Item(near, text=", ".join(arrow.verbs), key=(arrow.source, arrow.target))
    key = (arrow.target, f"back from {arrow.source}" if back else f"{dashed=}")
    for number in range(left.column + 1, last.column + 1):
        shared = (item for item in columns[number] if item.key == key)
        right = ready.get(number) or next(shared, None) or _Item(number, key=key)
        if right not in columns[number]:
            columns[number].append(right)
        if not any(line.right is right for line in left.rights):
            # The first move of each state is its main road; that one is kept straightest, then long arrows.
            _Line(left, right, back, dashed, 300 if main else 1 if left.state or right.state else 20)
        left = right


def _column_numbers(lifecycle: Lifecycle, arrows: Sequence[_Arrow]) -> dict[str, int]:
    """A state stands behind all that lead to it, unless they lead back; the final ones stand last."""
    before: dict[str, list[str]] = {}
    ordered: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        before.setdefault(name, [])
        for there in [arrow.target for arrow in arrows if arrow.source == name and arrow.target not in path]:
            if there not in before:
                visit(there, (*path, there))
            before[there].append(name)
        ordered.insert(0, name)

    for name in [lifecycle.start, *(state.name for state in lifecycle.states)]:
        if name not in before:
            visit(name, (name,))
    numbers: dict[str, int] = {}
    for name in ordered:
        numbers[name] = max((numbers[other] for other in before[name]), default=0) + 2
    last = max(numbers[state.name] for state in lifecycle.states if not state.outcome) + 2
    return numbers | {state.name: last for state in lifecycle.states if state.outcome}


def _place(columns: list[list[_Item]]) -> list[_Item]:
    """Give every item and every end of a line its place."""
    _untangle(columns)
    for sweep in range(200):
        for column in columns[:: -1 if sweep % 2 else 1]:
            _settle(column)
    items, x = [item for column in columns for item in column], _MARGIN
    top = min(item.y - item.above for item in items) - _MARGIN
    for column in columns:
        width = max(item.width or _text_width(item.text) + 12 for item in column)
        for item in column:
            item.x, item.y, item.width = x + width / 2, item.y - top, width
        x += width + _GAP
    for item in items:
        for line, y in _spread_along(item, {line: line.right.y for line in item.rights}):
            line.start = y
        for line, y in _spread_along(item, {line: line.left.y for line in item.lefts}):
            line.end = y
    return items


def _untangle(columns: list[list[_Item]]) -> None:
    """Order each column so that few lines cross, by moving every item to the middle of its neighbours."""
    for sweep in range(16):
        for column in columns[:: -1 if sweep % 2 else 1]:
            place = {item: (row + 0.5) / len(every) for every in columns for row, item in enumerate(every)}
            middle = {}
            for item in column:
                near = [line.right for line in item.rights] if sweep % 2 else [line.left for line in item.lefts]
                middle[item] = fmean(place[other] for other in near or [item])
            column.sort(key=middle.__getitem__)


def _settle(column: Sequence[_Item]) -> None:
    """Move the items of a column level with those they are tied to, as near as the space between them allows."""
    wishes, weights = [], []
    for item in column:
        near = [(line.pull, line.left.y) for line in item.lefts] + [(line.pull, line.right.y) for line in item.rights]
        near.append((0.1, fmean(other.y for other in column)))
        weights.append(sum(pull for pull, _ in near))
        wishes.append(sum(pull * y for pull, y in near) / weights[-1])
    gaps = [a.below + b.above + (14 if a.state or b.state else 3) for a, b in pairwise([column[0], *column])]
    for item, y in zip(column, _spread(wishes, weights, gaps), strict=True):
        item.y = y


def _spread(wishes: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to the wishes (in least squares) that keep their order, with a gap before each."""
    blocks: list[tuple[float, float, int]] = []
    offsets = list(accumulate(gaps))
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        mean, count = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, others, more = blocks.pop()
            mean, weight, count = (mean * weight + other * others) / (weight + others), weight + others, count + more
        blocks.append((mean, weight, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _spread_along(item: _Item, far: Mapping[_Line, float]) -> Iterator[tuple[_Line, float]]:
    """The height at which each line meets one side of an item, as level as it can be."""
    space, last = item.below - 10 if item.state else 0, len(far) - 1
    step = min(13, 2 * space / max(1, last))
    lines = sorted(far, key=far.__getitem__)
    wishes = [min(max(far[line], item.y - space), item.y + space) for line in lines]
    for row, y in enumerate(_spread(wishes, [1] * len(far), [step] * len(far))):
        yield lines[row], min(max(y, item.y - space + step * row), item.y + space - step * (last - row))


def _box_texts(state: State, current: str | None) -> list[str]:
    """What is written in the box of a state, line by line; the first is its name."""
    label = state.display.label if state.display else ""
    lines = [label] if label and label.casefold() != state.name.replace("_", " ").casefold() else []
    lines += [_who(state)]
    if limit := state.limit:
        lines += [f"after {format_duration(limit.after)}: {limit.to or 'wakes a worker'}", *_fine_print(limit)]
    return [state.name, *lines, "● it is here now"] if state.name == current else [state.name, *lines]


def _text_width(text: str) -> float:
    return sum(13.5 if ord(char) > 0x2E7F else 10 if char in "MWmw@" else 7.8 for char in text)


def _text(look: str, x: float, y: float, text: str, anchor: str = "middle", data: tuple[str, str] | None = None) -> str:
    ends = f' data-from="{data[0]}" data-to="{data[1]}"' if data else ""
    return f'<text class="hf-{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{ends}>{escape(text)}</text>'


def _draw_line(line: _Line) -> str:
    """A piece of an arrow: level to the edge of its column, over to the next one, and level to what stands there."""
    one, two = line.left, line.right
    left, right = one.x + one.width / 2, two.x - two.width / 2
    begin = left if one.state else one.x + _text_width(one.text) / 2 + 6 if one.text else left - one.width
    stop = right if two.state or not two.text else two.x - _text_width(two.text) / 2 - 6
    middle = (left + right) / 2
    curve = f"C{middle:.1f},{line.start:.1f} {middle:.1f},{line.end:.1f} {right:.1f},{line.end:.1f}"
    way = f"M{begin:.1f},{line.start:.1f} H{left:.1f} {curve} H{stop:.1f}"
    tip, y, along = (left, line.start, 8) if line.back else (right, line.end, -8)
    head = f'<path class="hf-head" d="M{tip:.1f},{y:.1f} l{along},-4.5 v9 z"/>'
    path = f'<path class="hf-line{" hf-dashed" * line.dashed}" d="{way}"/>'
    return path + head * bool((one if line.back else two).state)


def _draw_item(item: _Item, current: str | None) -> str:
    state, left, top = item.state, item.x - item.width / 2, item.y - item.below
    if not state and item.text:
        return _text("verb", item.x, item.y + 4, item.text, data=item.key)
    if not state:
        return "" if item.column else f'<circle class="hf-head" cx="{item.x:.1f}" cy="{item.y:.1f}" r="6"/>'
    look = f"hf-box hf-{state.outcome or state.actor}" + (" hf-now" if state.name == current else "")
    size = f'x="{left:.1f}" y="{top:.1f}" width="{item.width:.1f}" height="{item.below * 2:.1f}"'
    parts = [f'<rect class="{look}" data-state="{state.name}" {size} rx="{14 if state.outcome else 6}"/>']
    for row, text in enumerate(_box_texts(state, current)):
        parts.append(_text("word" if row else "name", item.x, top + 19 + row * _LINE_HEIGHT, text))
    if item.text:
        x = left + item.width - 14
        bow, head = f"M{x - 24:.1f},{top:.1f} c-4,-26 28,-26 24,-4", f"M{x:.1f},{top:.1f} l-4.5,-8 h9 z"
        parts.append(f'<path class="hf-line" d="{bow}"/><path class="hf-head" d="{head}"/>')
        parts.append(_text("verb", x - 32, top - 8, item.text, "end", (state.name, state.name)))
    return "".join(parts)
