"""One trace for one task; and nothing at all where nobody traces."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import Holdfast, Transient, current, step
from holdfast.execution import context, tracing
from holdfast.testing import Engine

hf = Holdfast()


@hf.task(retries=1)
async def twice() -> None:
    await step("first", int)
    if current().attempt == 1:
        raise Transient("once more")


def test_one_trace_leads_from_the_start_through_every_attempt(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    for module in (tracing, context):
        monkeypatch.setattr(module, "tracer", provider.get_tracer("test"))
    run = holdfast.run(twice)
    assert run.outcome == "done"
    start, done, first, second = spans.get_finished_spans()
    assert [span.name for span in (start, done, first, second)] == [
        "start twice",
        "step first",
        "run twice",
        "run twice",
    ]
    assert len({span.context.trace_id for span in (start, done, first, second)}) == 1
    assert done.parent is not None
    assert done.parent.span_id == first.context.span_id
    assert first.parent == second.parent
    assert first.parent is not None
    assert first.parent.span_id == start.context.span_id
    assert [dict(span.attributes or {})["holdfast.outcome"] for span in (first, second)] == ["failed", "done"]
    assert [dict(span.attributes or {})["holdfast.attempt"] for span in (first, second)] == [1, 2]


def test_without_a_tracer_nothing_is_stored(holdfast: Engine) -> None:
    run = holdfast.run(twice)
    assert holdfast.database.ask_owner("select trace from holdfast.input where id = $1", run.id) is None
