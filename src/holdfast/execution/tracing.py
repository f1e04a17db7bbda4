"""One trace for one task: from the call that starts it, through every attempt and step, on whatever machine.

The position in the trace travels with the task, in the W3C form. Without an OpenTelemetry SDK all of this does nothing.
"""

import contextlib
import os
from collections.abc import Iterator

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from holdfast.engine.task import Done, Lease, Outcome, Partial

tracer = trace.get_tracer("holdfast")
propagator = TraceContextTextMapPropagator()


def traceparent() -> str | None:
    """Where we are in a trace, if we are in one."""
    carrier: dict[str, str] = {}
    propagator.inject(carrier)
    return carrier.get("traceparent")


@contextlib.contextmanager
def trace_start(name: str) -> Iterator[Span]:
    """The span of a call that starts a task."""
    with tracer.start_as_current_span(f"start {name}", kind=SpanKind.PRODUCER) as span:
        span.set_attribute("holdfast.task", name)
        yield span


def is_tracing() -> bool:
    """Whether traces are set up in this process."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextlib.contextmanager
def trace_attempt(lease: Lease) -> Iterator[Span]:
    """The span of one attempt, under the call that started the task."""
    context = propagator.extract({"traceparent": lease.trace}) if lease.trace else None
    with tracer.start_as_current_span(f"run {lease.name}", context=context, kind=SpanKind.CONSUMER) as span:
        span.set_attributes(
            {
                "holdfast.task": lease.name,
                "holdfast.task_id": str(lease.task_id),
                "holdfast.attempt": lease.attempt,
                "holdfast.queue": lease.queue,
                "holdfast.lifecycle": lease.lifecycle,
            }
        )
        yield span


def record_outcome(span: Span, outcome: Outcome | None) -> None:
    """Write into the span how its attempt ended."""
    name = type(outcome).__name__.lower() if outcome else "lost"
    span.set_attribute("holdfast.outcome", name)
    if not isinstance(outcome, (Done, Partial)):
        span.set_status(Status(StatusCode.ERROR if name in ("failed", "lost") else StatusCode.UNSET))


def export_traces(service: str) -> None:
    """Send traces where OTEL_EXPORTER_OTLP_ENDPOINT says, if it is set and the extra `otel` is installed."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def flush_traces() -> None:
    """Send what is left, at the end of the process."""
    shutdown = getattr(trace.get_tracer_provider(), "shutdown", None)
    if shutdown:
        shutdown()
