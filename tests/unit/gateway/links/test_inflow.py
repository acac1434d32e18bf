"""What a neighbour says in one breath is looked at in portions, and who brings lies is read more slowly."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.engines import federation
from tests.kit.linked_gateways import LinkedGateway, all_up, linked
from tests.kit.waiting import eventually

from mangrove.gateway.links import connection as connection_module
from mangrove.gateway.links.inflow import (
    MAX_REST_S,
    MIN_REST_S,
    PORTION_FRAMES,
    REFUSAL_S,
    REFUSED_BURST,
    REFUSED_PER_S,
    Inflow,
)
from mangrove.overlay.protocol.control_messages import LinkStateAck, control_frame
from mangrove.overlay.protocol.frames import Frame, FrameType


def numbered(first: int, count: int) -> list[Frame]:
    return [Frame(FrameType.DATA, sequence=number) for number in range(first, first + count)]


@given(st.lists(st.one_of(st.integers(0, 3 * PORTION_FRAMES), st.none()), max_size=12))
def test_all_is_looked_at_once_and_in_order(steps: list[int | None]) -> None:
    """None takes a portion; a number is how many frames come."""
    inflow, came, taken = Inflow(0.0), 0, []
    for step in steps:
        if step is None:
            portion = inflow.portion()
            assert len(portion) <= PORTION_FRAMES
            taken += portion
        else:
            inflow.add(numbered(came, step))
            came += step
        assert inflow.waits == (len(taken) < came)
    while inflow.waits:
        taken += inflow.portion()
    assert [frame.sequence for frame in taken] == list(range(came))
    assert inflow.portion() == []


def test_what_waits_is_forgotten_with_the_connection() -> None:
    inflow = Inflow(0.0)
    inflow.add(numbered(0, 2 * PORTION_FRAMES))
    inflow.portion()
    inflow.clear()
    assert not inflow.waits
    assert inflow.portion() == []


def test_few_lies_cost_nothing_and_many_cost_what_they_took() -> None:
    inflow = Inflow(0.0)
    inflow.refused(REFUSED_BURST, 0.0)
    assert inflow.rest_s() == 0
    inflow.refused(500, 0.0)
    assert inflow.rest_s() == pytest.approx(500 * REFUSAL_S)
    assert inflow.rest_s() == 0, "it is paid for"
    inflow.refused(int(REFUSED_PER_S), 1.0)
    assert inflow.rest_s() == 0, "a second has passed"


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 0.1)), max_size=30))
def test_no_rest_is_longer_than_a_link_can_be_silent_and_in_sum_it_is_what_it_took(
    steps: list[tuple[int, float]],
) -> None:
    inflow, now, rested_s, lies = Inflow(0.0), 0.0, 0.0, 0
    for count, pause_s in steps:
        now += pause_s
        inflow.refused(count, now)
        lies += count
        rest_s = inflow.rest_s()
        assert rest_s == 0 or MIN_REST_S <= rest_s <= MAX_REST_S
        rested_s += rest_s
        now += rest_s
    assert rested_s <= lies * REFUSAL_S + 1e-9
    while rest_s := inflow.rest_s():
        rested_s += rest_s
    free = REFUSED_BURST + REFUSED_PER_S * now
    assert rested_s >= (lies - free) * REFUSAL_S - MIN_REST_S - 1e-9


async def _flooded(gateway: LinkedGateway, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many frames of `a` a gateway looks at in each turn of the loop."""
    by_turn: Counter[int] = Counter()
    turn = 0
    really = gateway.links.received

    def received(peer: str, frames: list[Frame]) -> None:
        by_turn[turn] += len(frames) if peer == "a" else 0
        really(peer, frames)

    async def turning() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(gateway.links, "received", received)
    task = asyncio.create_task(turning())
    expected = gateway.links["a"].frames_in + FLOOD

    async def all_seen() -> bool:
        return gateway.links["a"].frames_in >= expected

    await eventually(all_seen, "all should be looked at")
    task.cancel()
    return by_turn


FLOOD = 5_000


async def test_a_flood_of_one_neighbour_leaves_turns_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "TURN_S", 0.0)
    async with linked(federation(("a", "b"), ("b", "c"))) as gateways:
        await all_up(gateways)
        flood = control_frame(LinkStateAck(origin="c", epoch=1, sequence=1)).encode() * FLOOD
        a = gateways["a"].links["b"].connection
        assert a is not None
        a.write([flood])
        by_turn = await _flooded(gateways["b"], monkeypatch)
        assert max(by_turn.values()) <= PORTION_FRAMES
        assert gateways["b"].links["a"].connects == 1, "the link goes on"
        gateways["a"].send("c", b"after it")

        async def arrived() -> bool:
            return gateways["c"].delivered == [b"after it"]

        await eventually(arrived, "what is said after it arrives")


async def test_garbage_behind_a_flood_still_ends_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found wrong in a later turn is refused as if it were found at once."""
    monkeypatch.setattr(connection_module, "TURN_S", 0.0)
    async with linked(federation(("a", "b"))) as gateways:
        await all_up(gateways)
        ack = control_frame(LinkStateAck(origin="b", epoch=1, sequence=1)).encode()
        hello = gateways["a"].engine.hello().encode()
        a = gateways["a"].links["b"].connection
        assert a is not None
        a.write([ack * (3 * PORTION_FRAMES) + hello + ack * (3 * PORTION_FRAMES)])

        async def again() -> bool:
            return gateways["b"].links["a"].connects == 2 and gateways["b"].engine.usable("a")

        await eventually(again, "the link should be closed, and called again")
