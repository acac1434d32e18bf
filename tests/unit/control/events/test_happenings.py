"""Everything that happens at an agent has a sentence, and is read back as it was written."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.events.kinds import KINDS
from mangrove.control.events.session_happenings import MoveDecided, SessionOpened, TopicMoved
from mangrove.model.events.event_log import EventLog, document, event_number, read_event
from mangrove.model.events.happening import Happening
from mangrove.overlay.events.happenings import KINDS as GATEWAY_KINDS


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_has_a_sentence_of_its_own(kind: type[Happening]) -> None:
    assert "sentence" in vars(kind)
    assert kind.__doc__


def has_infinities(value: object) -> bool:
    """JSON has none, and nothing that is noted is infinite."""
    if isinstance(value, dict):
        return any(map(has_infinities, value.values()))
    return isinstance(value, float) and not math.isfinite(value)


@settings(max_examples=5, deadline=None)
@given(st.data())
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_written_is_read(kind: type[Happening], data: st.DataObject) -> None:
    kinds = st.from_type(kind)
    happening = data.draw(kinds.filter(lambda made: not has_infinities(msgspec.to_builtins(made))))
    log = EventLog("oslo-agent", 41)
    name = log.note(happening, 5.0, "oslo-agent-7")
    assert name == "oslo-agent-42"
    (event,) = log.take()
    try:
        line = msgspec.json.encode(document(event))
    except UnicodeEncodeError:
        return  # half of a surrogate pair is no text
    assert event_number(line) == 42
    found = read_event(line, KINDS)
    assert found is not None
    assert found.cause == "oslo-agent-7"
    assert type(found.happening) is kind
    assert found.happening.sentence()


def test_kinds_of_gateways_and_agents_have_different_names() -> None:
    assert not KINDS.keys() & GATEWAY_KINDS.keys()


def test_lines_that_are_cut_off_or_of_unknown_kinds_are_left_out() -> None:
    assert read_event(b'{"id": "oslo-1", "at"', KINDS) is None
    assert event_number(b'{"id": "oslo-1", "at"') is None
    unknown = b'{"id": "oslo-agent-9", "at": 1.0, "kind": "SomethingElse"}'
    assert read_event(unknown, KINDS) is None
    assert event_number(unknown) == 9


def test_sentences_say_what_why_and_how_much() -> None:
    opened = SessionOpened(
        session="oslo-1-1",
        broker="oslo-edge1",
        metrics={"matching": 0.98},
        need={"matching": 80.0},
        candidates={"oslo-edge2": 0.4, "oslo-edge3": None},
        left_out={},
    )
    assert opened.sentence() == (
        "session oslo-1-1 relieves oslo-edge1 (matching 98.0%); "
        "candidates: oslo-edge2 40.0% left, oslo-edge3 unmeasured"
    )
    decided = MoveDecided(
        session="oslo-1-1",
        topic="t",
        source="oslo-edge1",
        to="bonn-edge1",
        domain="bonn",
        clients=1,
        relief={},
        cost={},
        why="it is the least urgent",
    )
    assert decided.sentence() == (
        "t (no deadline, 1 client) is to go from oslo-edge1 to bonn-edge1 of bonn: it is the least urgent"
    )
    moved = TopicMoved(session="s", topic="t", to="oslo-edge2", moved=3, vanished=1, silent=2, held_ms=7.0)
    assert moved.sentence() == (
        "t is served at oslo-edge2: 3 clients moved (1 left, 2 did not say), held up by at most 7 ms"
    )
