"""Events as spans: a decision, and what it led to, are one trace.

The names of trace and span follow from the event's own name, so that processes which never speak of traces
agree: what began with an event of another process is in the trace of that event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from mangrove.host.tracing.trace_context import TraceContext
from mangrove.host.tracing.tracer import Tracer
from mangrove.model.events.event_log import Event

MAX_KNOWN = 4_096


class DecisionSpans:
    """Tells of the events of one process, as they are written down."""

    def __init__(self, tracer: Tracer, clock_shift_s: float) -> None:
        self._tracer = tracer
        self._clock_shift_s = clock_shift_s
        self._known: OrderedDict[str, tuple[TraceContext, float]] = OrderedDict()

    def tell(self, events: Sequence[Event]) -> None:
        """A span lasts from its cause, if that is of this process, to the event."""
        for event in events:
            at = event.at + self._clock_shift_s
            cause = None if event.cause is None else self._known.get(event.cause)
            parent, began = cause or (None if event.cause is None else _first(event.cause), at)
            own = _first(event.id)
            context = own if parent is None else TraceContext(parent.trace_id, own.span_id)
            self._known[event.id] = (context, at)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
            self._tracer.span(
                event.kind,
                context,
                parent,
                int(began * 1e9),
                int(at * 1e9),
                {"mangrove.event": event.id, "mangrove.sentence": event.happening.sentence()},
            )


def _first(event_id: str) -> TraceContext:
    """The context of an event that nothing led to."""
    return TraceContext(_number(event_id, 16), _number(event_id, 8))


def _number(event_id: str, size_bytes: int) -> int:
    return int.from_bytes(blake2b(event_id.encode(), digest_size=size_bytes).digest(), "big") or 1
