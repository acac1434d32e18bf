"""Probes in turn and out of turn: each answer belongs to its question, and none outlives a broker's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mangrove.agent.serving.failures.broker_probes import BrokerProbes
from mangrove.broker.heartbeat import Refused
from mangrove.control.failures.detector import PROBE_S
from mangrove.control.stimuli import BrokerProbed, Stimulus


class Pulse:
    """A broker whose answers a test decides."""

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        self.asked = 0
        self.heard = 0
        self.alive = True
        self.silenced = ""
        self.closed = False

    def beat(self) -> int:
        self.asked += 1
        if self.alive:
            self.heard = self.asked
        return self.asked

    def answered(self, beat: int) -> bool:
        return self.heard >= beat

    async def close(self) -> None:
        self.closed = True


async def probed(act: Callable[[BrokerProbes, Pulse], None], seconds: float) -> list[BrokerProbed]:
    """What is told after something was done to a broker that has answered so far."""
    told: list[Stimulus] = []
    pulses: list[Pulse] = []

    def made(refused: Refused) -> Pulse:
        pulses.append(Pulse(refused))
        return pulses[0]

    probes = BrokerProbes([("edge1", made)], told.append)
    task = asyncio.create_task(probes.run())
    await asyncio.sleep(1.5 * PROBE_S)
    told.clear()
    act(probes, pulses[0])
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert pulses[0].closed
    return [each for each in told if isinstance(each, BrokerProbed)]


async def test_what_a_broker_answered_before_its_end_is_no_sign_of_life() -> None:
    def ends(probes: BrokerProbes, pulse: Pulse) -> None:
        pulse.alive = False
        pulse.refused()

    first, *rest = await probed(ends, 0.75 * PROBE_S)
    assert first == BrokerProbed("edge1", answered=False, closed=True)
    assert not [each for each in rest if each.answered]


async def test_a_question_out_of_turn_has_its_own_time() -> None:
    def ask(probes: BrokerProbes, pulse: Pulse) -> None:
        pulse.alive = False
        probes.probe("edge1")
        probes.probe("edge1")

    told = await probed(ask, 1.2 * PROBE_S)
    # The question in turn had been answered; the one out of turn was not, nor any after it.
    assert sorted(each.answered for each in told[:2]) == [False, True]


async def test_a_broker_that_does_not_let_us_in_is_not_judged() -> None:
    def shut(probes: BrokerProbes, pulse: Pulse) -> None:
        pulse.silenced = "no entry"
        probes.probe("edge1")
        probes.probe("nobody")

    assert await probed(shut, 1.2 * PROBE_S) == []
