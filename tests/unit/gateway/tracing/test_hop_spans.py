"""Frames with sampled messages are noticed on their way in and out, and nothing else is."""

from __future__ import annotations

from tests.kit.span_notebook import Notebook

from mangrove.gateway.tracing import hop_spans
from mangrove.gateway.tracing.hop_spans import HopSpans
from mangrove.host.tracing.trace_context import TraceContext
from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.overlay.protocol.frames import Frame, FrameType

CONTEXT = TraceContext(7, 9)
TRACED = f"HMSG a 1\r\nNATS/1.0\r\ntraceparent: {CONTEXT}\r\n\r\nx\r\n".encode()


def data(body: bytes, age_us: int = 0) -> Frame:
    return Frame(type=FrameType.DATA, body=body, age_us=age_us)


def test_a_message_of_the_domain_has_waited_since_it_was_published() -> None:
    tracer = Notebook()
    hops = HopSpans(tracer, "here", RulesInForce(TopicRules((Contract(match="alert.>"),))))
    waiting = [data(b"nothing"), data(TRACED, age_us=5_000)]
    pull = hops.watching(lambda peer, now: waiting.pop(0) if waiting else None)
    while pull("there", 0.0) is not None:
        pass
    (span,) = tracer.told
    attributes = span.attributes
    assert (span.name, span.parent) == ("here to there", CONTEXT)
    assert attributes["mangrove.wait_ms"] == 5.0
    assert attributes["mangrove.from"] == "here"
    assert attributes["mangrove.contract"] == "alert.>"


def test_a_message_in_transit_has_waited_since_it_came() -> None:
    tracer = Notebook()
    hops = HopSpans(tracer, "here", RulesInForce(TopicRules()))
    hops.arrived("before", [data(TRACED, age_us=50_000_000)])
    hops.watching(lambda peer, now: data(TRACED, age_us=50_000_000))("after", 0.0)
    hops.delivered(data(b"sealed"), TRACED)
    assert [span.name for span in tracer.told] == ["here to after", "here delivers"]
    attributes = tracer.told[0].attributes
    assert attributes["mangrove.from"] == "before"
    assert float(attributes["mangrove.wait_ms"]) < 50_000


def test_arrivals_that_never_leave_are_forgotten() -> None:
    hops = HopSpans(Notebook(), "here", RulesInForce(TopicRules()))
    bodies = [f"traceparent: {TraceContext(n, 1)}\r\n".encode() for n in range(1, hop_spans.MAX_KNOWN + 10)]
    hops.arrived("before", map(data, bodies))
    assert len(hops._came) == hop_spans.MAX_KNOWN
