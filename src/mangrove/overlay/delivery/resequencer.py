"""Puts the frames of a flow back into the order in which their origin sent them (`order: publisher`).

Several paths, or a change of path, let frames overtake each other. A frame that is ahead of its turn is held
until those before it have come, but not longer than the hold; then the gap is given up. Late frames that come
after their gap was given up are delivered at once: late is better than lost.
"""

from __future__ import annotations

from mangrove.overlay.protocol.frames import Frame

HOLD_S = 0.25
MAX_FLOWS = 4096
MAX_HELD_BYTES = 16 << 20

Flow = tuple[int, int, int]


class _State:
    __slots__ = ("held", "next", "since")

    def __init__(self, first: int) -> None:
        self.next = first
        self.held: dict[int, Frame] = {}
        self.since = 0.0


class Resequencer:
    """Orders the frames of many flows; what it holds is bounded in bytes and time."""

    def __init__(self, hold_s: float = HOLD_S) -> None:
        self._hold_s = hold_s
        self._flows: dict[Flow, _State] = {}
        self._held_bytes = 0

    def arrived(self, frame: Frame, now: float) -> list[Frame]:
        """The frames that can be delivered now, in order."""
        key = (frame.origin, frame.epoch, frame.flow_id)
        state = self._flows.get(key)
        forgotten: list[Frame] = []
        if state is None:
            if len(self._flows) >= MAX_FLOWS:
                forgotten = self._forget(next(iter(self._flows)))
            state = self._flows[key] = _State(frame.sequence)
        if frame.sequence <= state.next:
            state.next = max(state.next, frame.sequence + 1)
            return [*forgotten, frame, *self._following(state, now)]
        if not state.held:
            state.since = now
        state.held[frame.sequence] = frame
        self._held_bytes += len(frame.body)
        if self._held_bytes > MAX_HELD_BYTES:
            return [*forgotten, *self._give_up(state, now)]
        return forgotten

    def _forget(self, key: Flow) -> list[Frame]:
        """There is no room for another flow: this one gives up what it holds."""
        held = self._flows.pop(key).held
        self._held_bytes -= sum(len(frame.body) for frame in held.values())
        return [held[sequence] for sequence in sorted(held)]

    def _following(self, state: _State, now: float) -> list[Frame]:
        ready = []
        while (frame := state.held.pop(state.next, None)) is not None:
            self._held_bytes -= len(frame.body)
            ready.append(frame)
            state.next += 1
        state.since = now
        return ready

    def _give_up(self, state: _State, now: float) -> list[Frame]:
        state.next = min(state.held)
        return self._following(state, now)

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        held = sum(len(frame.body) for state in self._flows.values() for frame in state.held.values())
        found = [] if held == self._held_bytes else [f"{held} bytes held, {self._held_bytes} are counted"]
        if any(state.held and min(state.held) <= state.next for state in self._flows.values()):
            found.append("a frame is held although its turn has come")
        return found

    def timer(self) -> float | None:
        """When a gap is given up."""
        return min((state.since + self._hold_s for state in self._flows.values() if state.held), default=None)

    def expired(self, now: float) -> list[Frame]:
        """Frames behind gaps that have lasted too long."""
        ready = []
        for state in self._flows.values():
            while state.held and now >= state.since + self._hold_s:
                since = state.since
                ready += self._give_up(state, now)
                if state.held and state.since == since:
                    break
        return ready
