"""Frames name what must come before them in other flows, when destinations have changed and only then."""

from __future__ import annotations

import pytest
from tests.kit.flow_tables import flow_of, flow_table

from mangrove.model.topics import Contract, Order, TopicRules
from mangrove.overlay.forwarding import flows
from mangrove.overlay.forwarding.flows import IN_USE_S, MAX_PREDECESSORS, FlowTable
from mangrove.overlay.protocol.frames import (
    MAX_PREDECESSORS_BYTES,
    YOUNG,
    Predecessor,
    encode_predecessors,
)

RULES = TopicRules((Contract(match="loose.>", order=Order.NONE), Contract(match="own.>")))


def table(*wanted: tuple[str, str], domains: int = 4) -> FlowTable:
    """The flows of d0."""
    made = flow_table(tuple(f"d{number}" for number in range(domains)), RULES)
    for domain, subject in wanted:
        made.want(domain, subject)
    return made


def send(made: FlowTable, subject: str, now: float = 1.0) -> tuple[int, tuple[Predecessor, ...]]:
    """The flow's id and what its next frame names."""
    flow = flow_of(made, subject)
    assert flow is not None
    before = made.predecessors(flow, now)
    flow.sequence += 1
    return flow.id, before


def test_a_subject_that_moves_comes_after_what_it_sent_before() -> None:
    made = table(("d1", "x"), ("d1", "y"), ("d2", "y"))
    first, nothing = send(made, "x")
    second, at_first = send(made, "y")
    assert (nothing, at_first) == ((), ()), "nothing was sent before"
    assert send(made, "x") == (first, ())
    made.want("d2", "x")
    assert send(made, "x") == (second, (Predecessor(first, 2, 0b0010),)), "d2 never got the first flow"
    assert send(made, "x") == (second, ()), "named once"
    made.forget("d2", "x")
    assert send(made, "x") == (first, (Predecessor(second, 3, 0b0010),))


def test_flows_without_a_common_destination_or_contract_are_not_named() -> None:
    made = table(("d1", "x"), ("d2", "y"), ("d1", "own.x"), ("d1", "loose.x"))
    for subject in ("x", "y", "own.x", "loose.x"):
        send(made, subject)
    made.want("d3", "own.x")
    made.want("d3", "loose.x")
    assert send(made, "x")[1] == ()
    assert send(made, "y")[1] == ()
    assert send(made, "own.x")[1] == (Predecessor(3, 1, 0b0010),)
    assert send(made, "loose.x")[1] == (), "no order, nothing to name"


def test_what_was_sent_long_ago_is_not_named() -> None:
    made = table(("d1", "x"))
    send(made, "x", now=1.0)
    made.want("d2", "x")
    assert send(made, "x", now=1.1 + IN_USE_S)[1] == ()


def test_frames_of_a_young_flow_say_so() -> None:
    made = table(("d1", "x"), ("d1", "loose.x"))
    began_lately = (Predecessor(1, 0, 0),)
    for _ in range(YOUNG):
        assert send(made, "x") == (1, ()), "numbers that are low say it themselves"
    assert send(made, "x", now=1.0 + IN_USE_S) == (1, began_lately)
    assert send(made, "x", now=1.1 + IN_USE_S) == (1, ())
    for _ in range(YOUNG + 1):
        assert send(made, "loose.x") == (2, ()), "no order, nothing to wait for"


def test_what_is_named_is_bounded() -> None:
    domains = 3000
    made = table(*((f"d{number}", f"x.{number}") for number in range(1, 60)), domains=domains)
    for number in range(1, 60):
        made.want(f"d{domains - 1}", f"x.{number}")
        send(made, f"x.{number}")
    made.want("d1", "x.59")
    _, named = send(made, "x.59")
    assert len(encode_predecessors(named)) <= MAX_PREDECESSORS_BYTES
    assert 5 < len(named) < MAX_PREDECESSORS
    assert named[0].flow_id > named[-1].flow_id, "those that were used last"
    for _ in range(YOUNG):
        young, _ = send(made, "x.59")
    made.want("d1", "something else")
    _, named = send(made, "x.59")
    assert named[0] == Predecessor(young, 0, 0)
    assert len(named) > 5
    assert len(encode_predecessors(named)) <= MAX_PREDECESSORS_BYTES


def test_who_asked_for_flows_that_were_forgotten_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MAX_FLOWS", 2)
    made = table(("d1", "x"), ("d2", "y"), ("d3", "z"))
    send(made, "y")
    first, _ = send(made, "x")
    assert not made.take_forgotten()
    send(made, "z")
    assert made.take_forgotten()
    assert not made.take_forgotten()
    again, named = send(made, "x")
    assert again != first
    assert [before.flow_id for before in named] == [first], "the same destinations under another id"
