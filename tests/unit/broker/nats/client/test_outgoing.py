"""What waits for a broker: in order, within bounds, in one write a turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.broker.client_connection import BrokerAwayError, ConnectionCounts
from mangrove.broker.nats.client.outgoing import MAX_AWAY_BYTES, MAX_WAITING_BYTES, TURN_BYTES, Outgoing


class Wire(asyncio.Transport):
    """Keeps what is written; says that it is full whenever a test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    @property
    def data(self) -> bytes:
        return b"".join(self.writes)


async def test_all_of_a_turn_leaves_in_one_write() -> None:
    outgoing, wire = Outgoing(ConnectionCounts()), Wire()
    outgoing.attach(wire, b"first ")
    for word in (b"a", b"b", b"c"):
        outgoing.add(word)
    assert wire.writes == [b"first "]
    await asyncio.sleep(0)
    assert wire.writes == [b"first ", b"abc"]


async def test_what_a_broker_was_not_handed_waits_for_the_next() -> None:
    counts = ConnectionCounts()
    outgoing, first, second = Outgoing(counts), Wire(), Wire()
    outgoing.add(b"early ")
    outgoing.say(b"is for nobody")
    outgoing.attach(first, b"")
    outgoing.pause()
    outgoing.add(b"held ")
    await asyncio.sleep(0)
    outgoing.detach()
    outgoing.add(b"away ")
    outgoing.attach(second, b"SUB ")
    assert first.data == b"early "
    assert second.data == b"SUB held away "
    assert counts.sent_bytes == len(b"early held away ")


async def test_room_is_bounded_away_and_while_the_broker_is_slow() -> None:
    counts = ConnectionCounts()
    outgoing, wire = Outgoing(counts), Wire()
    outgoing.add(bytes(MAX_AWAY_BYTES))
    assert not outgoing.full, "nobody waits for a broker that is away"
    with pytest.raises(BrokerAwayError, match="away"):
        outgoing.add(b"x")
    outgoing.attach(wire, b"")
    outgoing.pause()
    outgoing.add(bytes(MAX_WAITING_BYTES))
    assert outgoing.full
    outgoing.add(b"y")
    with pytest.raises(BrokerAwayError, match="takes no more"):
        outgoing.add(b"z")
    assert counts.unsent_messages == 2
    outgoing.resume()
    assert len(wire.data) == MAX_AWAY_BYTES + MAX_WAITING_BYTES + 1
    outgoing.close()
    with pytest.raises(BrokerAwayError, match="closed"):
        outgoing.add(b"x")


async def test_who_waits_for_room_goes_on_when_there_is_some_or_the_broker_is_lost() -> None:
    outgoing = Outgoing(ConnectionCounts())
    for end in (outgoing.resume, outgoing.detach):
        outgoing.attach(Wire(), b"")
        outgoing.pause()
        outgoing.add(bytes(TURN_BYTES + 1))
        waiting = [asyncio.create_task(outgoing.drained()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert not waiting[1].done()
        end()
        await asyncio.gather(*waiting[1:])
        assert not outgoing.full


@given(st.lists(st.sampled_from(["add", "attach", "detach", "pause", "resume", "turn"]), max_size=40))
def test_nothing_is_lost_repeated_or_out_of_order(steps: list[str]) -> None:
    """Whatever happens in between, brokers together are handed everything once, in order."""

    async def play() -> None:
        outgoing = Outgoing(ConnectionCounts())
        wires: list[Wire] = []
        attached = False
        said = b""
        for number, step in enumerate(steps):
            if step == "add":
                word = b"%d " % number
                outgoing.add(word)
                said += word
            elif step == "attach" and not attached:
                wires.append(Wire())
                outgoing.attach(wires[-1], b"")
                attached = True
            elif step == "detach":
                outgoing.detach()
                attached = False
            elif step == "pause" and attached:
                outgoing.pause()
            elif step == "resume" and attached:
                outgoing.resume()
            elif step == "turn":
                await asyncio.sleep(0)
        outgoing.detach()
        wires.append(Wire())
        outgoing.attach(wires[-1], b"")
        assert b"".join(wire.data for wire in wires) == said

    asyncio.run(play())
