"""Events that led to each other are one trace, also across processes."""

from __future__ import annotations

from tests.kit.span_notebook import Notebook, Span

from mangrove.host.tracing.decisions import DecisionSpans
from mangrove.model.events.event_log import Event, EventLog
from mangrove.overlay.events.happenings import LinkFailed


def by_event(notebook: Notebook) -> dict[str, Span]:
    return {str(span.attributes["mangrove.event"]): span for span in notebook.told}


def failed(peer: str) -> LinkFailed:
    return LinkFailed(peer=peer, reason="silence")


def test_what_an_event_led_to_is_in_its_trace_wherever_it_happened() -> None:
    here, there = EventLog("here"), EventLog("there")
    root = here.note(failed("there"), 1.0)
    here.note(failed("x"), 1.5, root)
    there.note(failed("here"), 2.0, root)
    spans = Notebook()
    DecisionSpans(spans, 0.0).tell(here.take())
    DecisionSpans(spans, 0.0).tell(there.take())
    told = by_event(spans)
    first, follower, abroad = told["here-1"], told["here-2"], told["there-1"]
    assert first.parent is None
    assert follower.parent == abroad.parent == first.context
    assert len({each.context.trace_id for each in (first, follower, abroad)}) == 1
    assert (follower.start_ns, follower.end_ns) == (1_000_000_000, 1_500_000_000), "from its cause to itself"
    assert abroad.start_ns == abroad.end_ns, "clocks of two machines are not compared"


def test_events_that_nothing_joins_are_apart() -> None:
    log = EventLog("here")
    log.note(failed("a"), 1.0)
    log.note(failed("b"), 1.0)
    spans = Notebook()
    DecisionSpans(spans, 0.0).tell(log.take())
    assert len({span.context.trace_id for span in spans.told}) == 2


def test_an_event_is_a_span_of_the_same_name_every_time() -> None:
    event = Event(id="here-7", at=1.0, cause=None, happening=failed("a"))
    first, second = Notebook(), Notebook()
    DecisionSpans(first, 0.0).tell([event])
    DecisionSpans(second, 5.0).tell([event])
    assert by_event(first)["here-7"].context == by_event(second)["here-7"].context
