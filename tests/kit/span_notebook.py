"""A tracer that writes spans down instead of sending them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mangrove.host.tracing.trace_context import TraceContext
from mangrove.host.tracing.tracer import Side, Tracer, Value


class Span(NamedTuple):
    """What a tracer is told of one."""

    name: str
    context: TraceContext
    parent: TraceContext | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]


class Notebook(Tracer):
    """All spans that it was told, in order."""

    def __init__(self) -> None:
        self.told: list[Span] = []

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
        """Write it down."""
        assert start_ns <= end_ns
        self.told.append(Span(name, context, parent, start_ns, end_ns, attributes))
