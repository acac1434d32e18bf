"""The engine is served when something is due, never later than was said, and not after the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import pytest
from tests.kit.engines import federation, with_links
from tests.kit.waiting import eventually

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.life.engine_timer import MAX_TICK_S, EngineTimer
from mangrove.gateway.life.event_writer import EventWriter
from mangrove.gateway.limits.arrivals import ArrivalLimits
from mangrove.gateway.sealing.sealed_traffic import SealedTraffic
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.event_file import EventFile
from mangrove.overlay.instructions import Instruction


class Timed:
    """A timer of a real engine, whose ticks are kept, and when it says that something is due."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        engine, ledger, audit = with_links(federation(("a", "b")), "a"), Ledger("a", epoch=1), AuditLog()
        self.due = float("inf")
        monkeypatch.setattr(engine, "timer", lambda: self.due)
        self.ticks: list[float] = []
        self.told = 0
        self.timer = EngineTimer(
            engine,
            self._carry_out,
            SealedTraffic(engine, ledger),
            EventWriter(engine, EventFile(None), audit, self._tell),
            ArrivalLimits(engine.rules, engine.federation.congestion, ledger, lambda subjects: None),
            audit,
        )

    def _carry_out(self, instructions: list[Instruction]) -> None:
        self.ticks.append(monotonic())

    def _tell(self) -> None:
        self.told += 1


async def test_what_is_due_earlier_brings_it_back_earlier_and_what_is_due_later_not_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed = Timed(monkeypatch)
    set_for: list[float] = []
    loop = asyncio.get_running_loop()
    later = loop.call_at

    def call_at(when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        set_for.append(when)
        return later(when, callback)

    monkeypatch.setattr(loop, "call_at", call_at)
    began = monotonic()
    timed.timer.set()
    timed.due = began + 0.3 * MAX_TICK_S
    timed.timer.set()
    timed.due = began + 0.5 * MAX_TICK_S
    timed.timer.set()
    timed.timer.stop()
    assert len(set_for) == 2
    assert began + MAX_TICK_S <= set_for[0] <= monotonic() + MAX_TICK_S, "it looks now and then"
    assert set_for[1] >= began + 0.3 * MAX_TICK_S
    assert set_for[1] < set_for[0]


async def test_it_comes_back_whatever_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without heartbeats all neighbours would give this gateway up."""
    timed = Timed(monkeypatch)
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fail(_: float) -> list[Instruction]:
        monkeypatch.undo()
        raise LookupError("nobody thought of this")

    monkeypatch.setattr(timed.timer._engine, "handle_timer", fail)
    timed.due = 0.0
    timed.timer.set()

    async def came_back() -> bool:
        return bool(timed.ticks)

    await eventually(came_back, "it should come back", 5.0)
    timed.timer.stop()
    asyncio.get_running_loop().set_exception_handler(None)
    assert [type(each["exception"]) for each in told] == [LookupError]


async def test_it_tells_of_what_happened_and_is_silent_when_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed = Timed(monkeypatch)
    timed.timer.tick()
    assert (len(timed.ticks), timed.told) == (1, 1), "links came up"
    timed.timer.tick()
    assert (len(timed.ticks), timed.told) == (2, 1), "nothing more has happened"
    timed.due = monotonic()
    timed.timer.set()
    timed.timer.stop()
    await asyncio.sleep(0.02)
    assert len(timed.ticks) == 2
