"""The pictures of a lifecycle show all of it, and can be read wherever they are shown."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from xml.etree import ElementTree

import pytest

from holdfast.engine.lifecycle.model import Display, Lifecycle, after, blocked, clock, final, gather, owner, work
from holdfast.engine.lifecycle.render import format_duration, matrix, mermaid, svg
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.batch.declaration import BATCH
from holdfast.lifecycles.dispatch.declaration import DISPATCH
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM
from holdfast.lifecycles.pipeline.declaration import PIPELINE

# Cancelling leads to two places, states are called like words of Mermaid, and arrows lead back, far and to themselves.
TANGLED = Lifecycle(
    "tangled", start="Note", blocked="Held", fail="BROKEN", states=[
        blocked("Held", unblock="Note", skip="DROPPED", cancel="DROPPED", limit=after(days=7, to="BROKEN")),
        owner(
            "Note", acts={"send": "State", "edit": "Note", "wait": "REST"}, cancel="RECALLED",
            display=Display('<b>"A&B"</b> ]]> --> \x00\x1b'),
        ),
        work("State", to=["Class", "Note"], cancel="DROPPED", limit=after(seconds=90, wake=True)),
        work("Class", done="PARTS", retry="REST", cancel="DROPPED"),
        clock("REST", due="State", cancel="DROPPED", display=Display("Müde 眠い")),
        gather("PARTS", done="DONE", partial="Held", fail="BROKEN", cancel="DROPPED"),
        final("DONE", "done"), final("BROKEN", "failed"), final("DROPPED", "cancelled"), final("RECALLED", "cancelled"),
    ],
)  # fmt: skip
LOOPS = Lifecycle(
    "loops", start="A", cancel="GONE", states=[
        owner("A", acts={"up": "B", "down": "C"}),
        owner("B", acts={"again_and_again_and_again": "B", "end": "DONE"}),
        owner("C", acts={"again_and_again_and_again": "C", "end": "DONE"}),
        final("DONE", "done"), final("GONE", "cancelled"),
    ],
)  # fmt: skip
EACH = [ANALYSIS, BATCH, DISPATCH, INGEST, INGEST_ITEM, PIPELINE, TANGLED, LOOPS]

each_lifecycle = pytest.mark.parametrize("lifecycle", EACH, ids=lambda lifecycle: lifecycle.name)

Move = tuple[str, str, str]
Box = tuple[float, float, float, float]


def called(verb: str) -> str:
    return "to" if verb.startswith("to:") else verb


def moves(lifecycle: Lifecycle) -> set[Move]:
    return {(state.name, move.to, called(move.verb)) for state in lifecycle.states for move in state.moves}


def limits(lifecycle: Lifecycle) -> set[Move]:
    """From where, to where, and how it is written."""
    found = set()
    for state in lifecycle.states:
        if limit := state.limit:
            label = ("limit " if limit.to else "wakes after ") + format_duration(limit.after)
            found.add((state.name, limit.to or state.name, label))
    return found


def starts(lifecycle: Lifecycle) -> set[Move]:
    starts_here = {("[*]", lifecycle.start, "submit")}
    return starts_here | ({("[*]", lifecycle.blocked, "submit_blocked")} if lifecycle.blocked else set())


def drawn_moves(lifecycle: Lifecycle) -> set[Move]:
    """Those of a diagram, in which cancelling is told once if it leads to one state."""
    cancelled = {to for _, to, verb in moves(lifecycle) if verb == "cancel"}
    return {move for move in moves(lifecycle) if move[2] != "cancel" or len(cancelled) > 1}


def rows(lifecycle: Lifecycle) -> list[list[str]]:
    """The cells of the table, without the line under its head."""
    lines = [line.strip("|").split("|") for line in matrix(lifecycle).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in (lines[0], *lines[2:])]


@each_lifecycle
def test_the_table_shows_every_move_and_limit_and_nothing_else(lifecycle: Lifecycle) -> None:
    head, *body = rows(lifecycle)
    drawn = {
        (row[0], target, label)
        for row in body
        for target, cell in zip(head[2:], row[2:], strict=True)
        for label in filter(None, cell.split(", "))
    }
    assert drawn == moves(lifecycle) | limits(lifecycle)


@each_lifecycle
def test_the_table_says_who_acts_next_in_every_state_that_is_not_final(lifecycle: Lifecycle) -> None:
    acting = [[state.name, state.actor] for state in lifecycle.states if not state.outcome]
    assert [row[:2] for row in rows(lifecycle)[1:]] == acting


@each_lifecycle
def test_the_table_is_aligned_markdown(lifecycle: Lifecycle) -> None:
    table, notes = matrix(lifecycle).split("\n\n")
    bars = [[at for at, char in enumerate(line) if char == "|"] for line in table.splitlines()]
    assert all(line == bars[0] for line in bars)
    assert re.fullmatch(r"(\| -{3,} )+\|", table.splitlines()[1])
    assert all(line.startswith("- ") for line in notes.splitlines())


def test_the_table_has_starts_ends_and_the_fine_print_of_limits() -> None:
    assert "- Starts: Queued (submit), Blocked (submit_blocked)" in matrix(DISPATCH)
    assert "- Ends: Completed (done), Dead (failed), Canceled (cancelled)" in matrix(DISPATCH)
    assert "- Limit of UPLOADING: renewed up to 1 h" in matrix(ANALYSIS)
    assert "- Limit of IN_PROGRESS: a task may bring its own" in matrix(BATCH)


NAME, LABEL = r"[A-Za-z]\w*\.?", r"(?:[\w ,.-]|#\d+;)+"
MERMAID_LINES = [
    rf'state "\w+" as {NAME}',
    rf"{NAME} : {LABEL}",
    rf"\[\*\] --> {NAME} : {LABEL}",
    rf"{NAME} --> {NAME} : {LABEL}",
    rf"{NAME} --> \[\*\]",
    rf"note left of {NAME} : {LABEL}",
    r"classDef \w+ fill:#\w{6},stroke:#\w{6},color:#\w{6}",
    rf"class {NAME}(,{NAME})* \w+",
]


@each_lifecycle
def test_every_line_of_the_mermaid_diagram_is_one_that_mermaid_knows(lifecycle: Lifecycle) -> None:
    first, direction, *lines = mermaid(lifecycle).splitlines()
    assert (first, direction) == ("stateDiagram-v2", "    direction LR")
    assert [line for line in lines if not re.fullmatch(f"    ({'|'.join(MERMAID_LINES)})", line)] == []


@each_lifecycle
def test_the_mermaid_diagram_shows_every_move_and_limit_on_one_arrow_per_pair(lifecycle: Lifecycle) -> None:
    names = {alias: name for name, alias in re.findall(r'state "(\w+)" as (\S+)', mermaid(lifecycle))}
    arrows = re.findall(r"^    (\S+) --> (\S+) : (.*)$", mermaid(lifecycle), re.MULTILINE)
    assert len({(source, target) for source, target, _ in arrows}) == len(arrows)
    drawn = {(names.get(one, one), names[two], label) for one, two, labels in arrows for label in labels.split(", ")}
    assert drawn == drawn_moves(lifecycle) | limits(lifecycle) | starts(lifecycle)


@each_lifecycle
def test_the_mermaid_diagram_ends_in_every_final_state_and_colours_all(lifecycle: Lifecycle) -> None:
    source = mermaid(lifecycle)
    names = dict(re.findall(r'state "(\w+)" as (\S+)', source))
    final_ones = {names[state.name] for state in lifecycle.states if state.outcome}
    assert set(re.findall(r"(\S+) --> \[\*\]", source)) == final_ones
    classes = re.findall(r"class (\S+) (\w+)$", source, re.MULTILINE)
    assert {name: kind for those, kind in classes for name in those.split(",")} == {
        names[state.name]: state.outcome or state.actor for state in lifecycle.states
    }


def test_mermaid_never_meets_its_own_keywords_as_names() -> None:
    aliases = set(re.findall(r'state "\w+" as (\S+)', mermaid(TANGLED)))
    assert {"Note.", "State.", "Class."} <= aliases - {"Note", "State", "Class"}


def test_a_verb_cannot_break_a_diagram() -> None:
    odd = replace(ANALYSIS["QUEUED"].moves[0], verb="a:b;c\nd<&")
    queued = replace(ANALYSIS["QUEUED"], moves=(*ANALYSIS["QUEUED"].moves, odd))
    lifecycle = replace(ANALYSIS, states=[queued if state.name == "QUEUED" else state for state in ANALYSIS.states])
    assert "QUEUED --> PROCESSING : claim, a#58;b#59;c#10;d#60;#38;\n" in mermaid(lifecycle)
    assert "claim, a:b;c\nd<&" in [caption for caption, _, _ in texts(svg(lifecycle))]


@pytest.mark.parametrize("draw", [mermaid, svg])
def test_cancelling_is_noted_once_if_it_leads_to_one_state_and_drawn_if_it_does_not(
    draw: Callable[[Lifecycle], str],
) -> None:
    assert draw(DISPATCH).count("cancel leads to Canceled from every state that is not final") == 1
    assert "from every state" not in draw(TANGLED)


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 - it is our own


def elements(picture: str, tag: str, kind: str) -> Iterator[ElementTree.Element]:
    for element in parsed(picture).iter(f"{{http://www.w3.org/2000/svg}}{tag}"):
        if kind in element.get("class", "").split():
            yield element


def boxes(picture: str) -> dict[str, Box]:
    """Left, top, right and bottom of each state."""
    found = {}
    for rect in elements(picture, "rect", "hf-box"):
        x, y, width, height = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
        found[rect.get("data-state", "")] = (x, y, x + width, y + height)
    return found


def texts(picture: str) -> Iterator[tuple[str, Box, ElementTree.Element]]:
    """Every text with the room it takes, its letters taken for as wide as those of a common font."""
    for kind in ("hf-name", "hf-word", "hf-verb"):
        for text in elements(picture, "text", kind):
            caption, x, y = text.text or "", float(text.get("x", "")), float(text.get("y", ""))
            width = 7.25 * len(caption)
            x -= {"start": 0.0, "middle": width / 2, "end": width}[text.get("text-anchor", "")]
            yield caption, (x, y - 10, x + width, y + 3), text


def labels(picture: str) -> Iterator[tuple[Box, ElementTree.Element]]:
    return ((box, text) for _, box, text in texts(picture) if text.get("class") == "hf-verb")


def overlap(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def inside(one: Box, two: Box) -> bool:
    return two[0] <= one[0] and two[1] <= one[1] and one[2] <= two[2] and one[3] <= two[3]


def written_in(picture: str, state: str) -> list[str]:
    return [caption for caption, box, _ in texts(picture) if inside(box, boxes(picture)[state])]


@each_lifecycle
def test_the_picture_shows_every_move_and_birth_as_a_label(lifecycle: Lifecycle) -> None:
    found = [
        (text.get("data-from", ""), text.get("data-to", ""), text.text or "") for _, text in labels(svg(lifecycle))
    ]
    drawn = {(source, target, verb) for source, target, verbs in found if source for verb in verbs.split(", ")}
    assert drawn == drawn_moves(lifecycle) | starts(lifecycle)


@each_lifecycle
def test_the_picture_shows_who_acts_next_and_every_limit_in_the_box(lifecycle: Lifecycle) -> None:
    picture = svg(lifecycle)
    for state in lifecycle.states:
        written = written_in(picture, state.name)
        assert written[0] == state.name
        actor = f"ends as {state.outcome}" if state.outcome else rf"(other )?{state.actor} acts? next"
        assert [caption for caption in written if re.fullmatch(actor, caption)]
        if state.limit:
            assert f"after {format_duration(state.limit.after)}: {state.limit.to or 'wakes a worker'}" in written


Point = tuple[float, float]


class Walk:
    """Follows the lines of a picture, piece by piece."""

    def __init__(self, picture: str) -> None:
        self.boxes = boxes(picture)
        self.pieces = []
        for path in elements(picture, "path", "hf-line"):
            if way := re.fullmatch(r"M(\S+),(\S+) H\S+ C\S+ \S+ \S+,(\S+) H(\S+)", path.get("d", "")):
                x, y, last_y, last_x = map(float, way.groups())
                self.pieces.append(((x, y), (last_x, last_y), "hf-dashed" in path.get("class", "")))

    def state_at(self, point: Point) -> str:
        for name, (left, top, right, bottom) in self.boxes.items():
            if min(abs(point[0] - left), abs(point[0] - right)) < 0.2 and top <= point[1] <= bottom:
                return name
        return ""

    def leftmost(self, point: Point) -> Point:
        before = [start for start, end, _ in self.pieces if near(end, point)]
        return self.leftmost(before[0]) if before and not self.state_at(point) else point

    def rightmost(self, point: Point) -> Point:
        after = [end for start, end, _ in self.pieces if near(start, point)]
        return self.rightmost(after[0]) if after and not self.state_at(point) else point


def near(one: Point, two: Point) -> bool:
    return abs(one[0] - two[0]) < 0.2 and abs(one[1] - two[1]) < 0.2


def arrow_heads(picture: str) -> list[Point]:
    tips = [re.match(r"M(\S+),(\S+) l-?8,", path.get("d", "")) for path in elements(picture, "path", "hf-head")]
    return [(float(tip[1]), float(tip[2])) for tip in tips if tip]


@each_lifecycle
def test_every_arrow_leads_over_its_label_from_its_state_to_its_state(lifecycle: Lifecycle) -> None:
    picture = svg(lifecycle)
    walk, heads = Walk(picture), arrow_heads(picture)
    for box, label in labels(picture):
        source, target, y = label.get("data-from", ""), label.get("data-to", ""), box[3] - 7
        if not source or source == target:
            continue
        at_label = [(start, end) for start, end, _ in walk.pieces if abs(start[1] - y) < 0.2 or abs(end[1] - y) < 0.2]
        left_end = max(end for _, end in at_label if end[0] <= box[0] and abs(end[1] - y) < 0.2)
        right_end = min(start for start, _ in at_label if start[0] >= box[2] and abs(start[1] - y) < 0.2)
        ends = [walk.leftmost(left_end), walk.rightmost(right_end)]
        met = [walk.state_at(point) or "[*]" for point in ends]
        assert met in ([source, target], [target, source])
        assert any(near(head, ends[met.index(target)]) for head in heads)
        assert not any(near(head, ends[met.index(source)]) for head in heads)


@each_lifecycle
def test_every_limit_that_leads_elsewhere_has_a_dashed_arrow_unless_a_verb_leads_there_too(
    lifecycle: Lifecycle,
) -> None:
    walk = Walk(svg(lifecycle))
    dashed = {
        (walk.state_at(start), walk.state_at(walk.rightmost(end)))
        for start, end, is_dashed in walk.pieces
        if is_dashed and walk.state_at(start)
    }
    by_verb = {(source, target) for source, target, _ in drawn_moves(lifecycle)}
    assert dashed == {(source, target) for source, target, _ in limits(lifecycle) if source != target} - by_verb


@each_lifecycle
def test_no_box_and_no_label_lies_on_another(lifecycle: Lifecycle) -> None:
    picture = svg(lifecycle, lifecycle.start)
    assert set(boxes(picture)) == {state.name for state in lifecycle.states}
    things = [*boxes(picture).values(), *(box for box, _ in labels(picture))]
    assert [(one, two) for one, two in combinations(things, 2) if overlap(one, two)] == []
    for box, label in labels(picture):
        if label.get("data-from") == label.get("data-to"):
            left, top, right, _ = boxes(picture)[label.get("data-to", "")]
            assert inside(box, (left, 0, right, top))


@each_lifecycle
def test_no_line_runs_through_a_box(lifecycle: Lifecycle) -> None:
    picture = svg(lifecycle)
    for path in elements(picture, "path", "hf-line"):
        if way := re.fullmatch(r"M(\S+),(\S+) H(\S+) C\S+ \S+ (\S+),(\S+) H(\S+)", path.get("d", "")):
            x, y, bend, level, last_y, last_x = map(float, way.groups())
            # It is level first, then stays within the gap in which it bends, then is level again.
            pieces = [(x, y, bend, y), (bend, min(y, last_y), level, max(y, last_y)), (level, last_y, last_x, last_y)]
            assert not [box for box in boxes(picture).values() for piece in pieces if overlap(piece, box)]


@each_lifecycle
def test_every_text_lies_within_the_picture_and_in_its_box(lifecycle: Lifecycle) -> None:
    picture = svg(lifecycle, lifecycle.start)
    width, height = map(float, parsed(picture).get("viewBox", "").split()[2:])
    assert [caption for caption, box, _ in texts(picture) if not inside(box, (0, 0, width, height))] == []
    assert all(inside(box, (0, 0, width, height)) for box in boxes(picture).values())
    in_boxes = [caption for state in lifecycle.states for caption in written_in(picture, state.name)]
    footnotes = [caption for caption, _, text in texts(picture) if text.get("text-anchor") == "start"]
    verbs = [label.text for _, label in labels(picture)]
    assert sorted([*in_boxes, *footnotes, *map(str, verbs)]) == sorted(caption for caption, _, _ in texts(picture))


def test_a_label_cannot_break_the_picture() -> None:
    picture = svg(TANGLED)
    assert '<b>"A&B"</b> ]]> --> ' in [caption for caption, _, _ in texts(picture)]
    assert "<b>" not in picture


def test_the_current_state_is_marked_by_text_and_border_and_no_other_is() -> None:
    picture = svg(ANALYSIS, "QUEUED")
    assert "● it is here now" in written_in(picture, "QUEUED")
    assert picture.count("it is here now") == 1
    assert [rect.get("data-state") for rect in elements(picture, "rect", "hf-now")] == ["QUEUED"]
    assert "here now" not in svg(ANALYSIS)
    assert not [*elements(svg(ANALYSIS), "rect", "hf-now")]


def test_a_state_of_another_lifecycle_cannot_be_the_current_one() -> None:
    with pytest.raises(ValueError, match="analysis has no state 'Running'"):
        svg(ANALYSIS, "Running")


@each_lifecycle
def test_the_picture_needs_nothing_else_and_has_a_text_for_those_who_cannot_see_it(lifecycle: Lifecycle) -> None:
    picture = svg(lifecycle)
    root = parsed(picture)
    assert root.get("role") == "img"
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert lifecycle.name in (root[0].text or "")
    for source, target, label in moves(lifecycle) | limits(lifecycle):
        assert re.search(rf"\b{label}\b[^.]* leads from {source} to {target}\.", root[1].text or "")
    assert not re.search(r"<script|href|url\(|@import|@font-face", picture)
    assert "prefers-color-scheme:dark" in picture


@each_lifecycle
def test_a_lifecycle_that_was_kept_in_the_database_looks_the_same(lifecycle: Lifecycle) -> None:
    kept = Lifecycle.from_definition(lifecycle.definition())
    assert [draw(kept) for draw in (matrix, mermaid, svg)] == [draw(lifecycle) for draw in (matrix, mermaid, svg)]


DURATIONS = {
    "26 h": timedelta(hours=26), "15 min": timedelta(minutes=15), "7 d": timedelta(days=7), "1 d": timedelta(hours=24),
    "90 s": timedelta(seconds=90), "2 min": timedelta(seconds=120), "0.25 s": timedelta(milliseconds=250),
    "8640000.000001 s": timedelta(days=100, microseconds=1),
}  # fmt: skip


@pytest.mark.parametrize(("caption", "duration"), DURATIONS.items())
def test_durations_are_written_in_the_largest_unit_that_needs_no_fraction(caption: str, duration: timedelta) -> None:
    assert format_duration(duration) == caption
