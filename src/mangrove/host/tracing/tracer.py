"""Spans on their way to a collector by OTLP, from a thread of its own: nobody waits for the network."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING

from mangrove.host.tracing.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
DEFAULT_RATIO = 0.001
"""Of messages, if `OTEL_TRACES_SAMPLER` does not say another."""
MAX_SPANS_PER_S = 1_000
TOO_MANY = f"spans of traces beyond {MAX_SPANS_PER_S} in a second"
CLOSE_S = 1.0
"""A collector that is away holds nobody up for longer."""
MISSING = "traces are asked for by %s; they need: pip install 'mangrove-messaging[tracing]'"

Value = str | bool | int | float


class Side(Enum):
    """What a span's process does with the message."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    INTERNAL = "internal"


def tracing_asked_for() -> bool:
    """Whether the standard variables name a collector, and do not switch tracing off."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    none = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() not in ("otlp", "")
    return any(os.environ.get(name) for name in ENDPOINTS) and not off and not none


def sampled_ratio() -> float:
    """What share of messages begins a trace, by the standard variables."""
    sampler = os.environ.get("OTEL_TRACES_SAMPLER", "").removeprefix("parentbased_")
    match sampler:
        case "always_on":
            return 1.0
        case "always_off":
            return 0.0
        case "traceidratio":
            try:
                return min(1.0, max(0.0, float(os.environ.get("OTEL_TRACES_SAMPLER_ARG", "1"))))
            except ValueError:
                log.warning("OTEL_TRACES_SAMPLER_ARG is no number; %g is used", DEFAULT_RATIO)
    return DEFAULT_RATIO


class Tracer:
    """Takes spans that have ended. What is too much for a second is dropped and counted."""

    def __init__(self, service: str, attributes: Mapping[str, Value]) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        named = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or service}
        self._resource = Resource.create({**attributes, **named})
        self._processor: BatchSpanProcessor = BatchSpanProcessor(OTLPSpanExporter())
        self._second = 0
        self._in_second = 0
        self.when_dropped: Callable[[str], None] = lambda reason: None
        """Is told of every span that is dropped."""

    @classmethod
    def from_environment(cls, service: str, **attributes: Value) -> Tracer | None:
        """A tracer if one is asked for and can be had; else None, and nothing is loaded."""
        if not tracing_asked_for():
            return None
        if find_spec("opentelemetry") is None:
            log.warning(MISSING, " or ".join(ENDPOINTS))
            return None
        return cls(service, attributes)

    def span(
        self,
        name: str,
        context: TraceContext,
        parent: TraceContext | None,
        start_ns: int,
        end_ns: int,
        attributes: Mapping[str, Value],
        side: Side = Side.INTERNAL,
    ) -> None:
        """Something that took from one moment to another, in nanoseconds since 1970."""
        second = int(monotonic())
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second > MAX_SPANS_PER_S:
            self.when_dropped(TOO_MANY)
            return
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

        def of(each: TraceContext, *, remote: bool) -> SpanContext:
            return SpanContext(each.trace_id, each.span_id, remote, TraceFlags(TraceFlags.SAMPLED))

        self._processor.on_end(
            ReadableSpan(
                name,
                context=of(context, remote=False),
                parent=None if parent is None else of(parent, remote=True),
                resource=self._resource,
                attributes=attributes,
                kind=SpanKind[side.name],
                start_time=start_ns,
                end_time=max(start_ns, end_ns),
            )
        )

    def close(self) -> None:
        """Send what is left, as far as a moment suffices."""
        ending = threading.Thread(target=self._processor.shutdown, name="last spans", daemon=True)
        ending.start()
        ending.join(CLOSE_S)
