"""Whether a broker is there: it is asked ten times a second, and two questions without an answer tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mangrove.broker.client_connection import ClientConnection

TICK_S = 0.1
SILENT_TICKS = 2
LEAVE_TICKS = 10
"""A broker that is silent for so long is left, if there is another: it may be frozen for ever."""
LATE_S = 0.05
"""A look that comes so late says more of this process than of a broker: answers may wait to be read."""


class Pulse:
    """One connection: how many looks have found nothing heard since the last question."""

    def __init__(self, heard_bytes: int) -> None:
        self._heard_bytes = heard_bytes
        self.missed = 0

    @property
    def silent(self) -> bool:
        """Whether the broker is taken for dead."""
        return self.missed >= SILENT_TICKS

    def look(self, heard_bytes: int, late: bool) -> None:
        """A tick has passed since the last question; if it was `late`, it proves nothing."""
        if heard_bytes != self._heard_bytes:
            self.missed = 0
        elif not late:
            self.missed += 1
        self._heard_bytes = heard_bytes


class Pulses:
    """Those of all connections in use."""

    def __init__(
        self,
        fell_silent: Callable[[ClientConnection], None],
        spoke_again: Callable[[ClientConnection], None],
    ) -> None:
        self._fell_silent = fell_silent
        self._spoke_again = spoke_again
        self._pulses: dict[ClientConnection, Pulse] = {}
        self._due_at: float | None = None
        self.late = 0
        """Looks that came too late to tell anything."""

    def silent(self, wire: object) -> bool:
        """Whether a connection's broker does not answer."""
        return any(pulse.silent for each, pulse in self._pulses.items() if each is wire)

    def tick(self, wires: Iterable[ClientConnection], now: float) -> None:
        """Look at all connections in use, and ask their brokers again."""
        late = self._due_at is not None and now > self._due_at + LATE_S
        self._due_at = now + TICK_S
        self.late += late
        connected = [wire for wire in wires if wire.connected]
        before, self._pulses = self._pulses, {}
        for wire in connected:
            heard_bytes = wire.counts.received_bytes
            pulse = before.get(wire)
            if pulse is None:
                pulse = Pulse(heard_bytes)
                was_silent = False
            else:
                was_silent = pulse.silent
                pulse.look(heard_bytes, late)
            self._pulses[wire] = pulse
            wire.probe()
            if pulse.silent and not was_silent:
                self._fell_silent(wire)
            elif was_silent and not pulse.silent:
                self._spoke_again(wire)
            if pulse.missed >= LEAVE_TICKS:
                del self._pulses[wire]
                wire.abandon("the broker does not answer")
