"""Puts frames back into the order in which their origin sent them (`order: publisher`, the default).

Several paths, or a change of path, let frames overtake each other. A frame that is ahead of its turn is held
until those before it have come: the earlier ones of its flow, and the predecessors that it names in other
flows (a subject moves to another flow when its destinations change). No frame is held longer than patience
allows; then everything before it is given up. What comes after it was given up is delivered at once: late is
better than lost.

What was dropped on its way is not waited for where that shows. Frames of a flow that take the same way stay
in order, so a gap that all ways in use have passed is one that nobody will fill; unless a way is new, since
the missing frames may be on the one before.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from mangrove.overlay.delivery.kept_flows import FlowKey, KeptFlows
from mangrove.overlay.protocol.frames import Frame, Name, Predecessor, most_frames

MAX_FLOWS = 4096
MAX_HELD_BYTES = 16 << 20
MAX_HELD_FRAMES = most_frames(MAX_HELD_BYTES)
SETTLED_S = 1.0
"""A way on which frames came for so long, never so far apart, is in use; no hold is longer."""
PAUSE_S = 0.15
"""Shorter than a link that failed is away: what is missing after such a pause may be on a detour."""
ANYWHERE = -1
"""Next sequence of a flow of which no frame has come yet, though another flow may wait for it."""
MAX_LINKED = 64
"""So many flows does a frame wait for, and are followed from one to the next when a frame is given up."""


class Holding(Protocol):
    """Says how long a frame may be held at most."""

    def hold_s(self, frame: Frame) -> float:
        """In seconds, from its arrival."""
        ...


class _Way:
    """One path of a flow, as told by the frames that came over it, duplicates too."""

    __slots__ = ("highest", "last", "since")

    def __init__(self, sequence: int, now: float) -> None:
        self.highest = sequence
        self.since = self.last = now


class _Held(NamedTuple):
    frame: Frame
    since: float
    until: float


class _Flow:
    """What is due next, what is ahead of its turn, and who in other flows waits for this one."""

    __slots__ = ("_due", "_order", "held", "key", "next", "waiters", "ways")

    def __init__(self, key: FlowKey) -> None:
        self.key = key
        self.next = ANYWHERE
        self.held: dict[int, _Held] = {}
        self._order: list[int] = []
        """A heap of what is held, and of some that is no more."""
        self._due: float | None = None
        self.ways: dict[int, _Way] = {}
        self.waiters: dict[FlowKey, _Flow] = {}

    def join(self, frame: Frame) -> None:
        """The first frame came: its flow is joined at the beginning if that may still be on its way."""
        self.next = min(1, frame.sequence) if frame.begun_lately else frame.sequence

    def saw(self, frame: Frame, now: float) -> None:
        """A frame came, perhaps again."""
        way = self.ways.get(frame.way)
        if way is None:
            self.ways = {each: way for each, way in self.ways.items() if way.last >= now - SETTLED_S}
            self.ways[frame.way] = _Way(frame.sequence, now)
            return
        pause = now - way.last
        skipped = frame.sequence > way.highest + 1
        if pause >= SETTLED_S or (skipped and (pause >= PAUSE_S or self.next > way.highest + 1)):
            way.since = now  # new again: frames have gone another way in between, or may have
        way.last = now
        if frame.sequence > way.highest:
            way.highest = frame.sequence

    def keep(self, held: _Held) -> None:
        """A frame must wait."""
        sequence = held.frame.sequence
        self.held[sequence] = held
        heappush(self._order, sequence)
        if self._due is not None and held.until < self._due:
            self._due = held.until

    def prolong(self, patience: Holding, now: float) -> None:
        """Ask once more how long frames may be held whose time is up: more may be known by now.

        Then the others are asked about, too, so that not all are gone through again for each of them.
        """
        known_more = False
        for sequence, held in self.held.items():
            if held.until <= now:
                until = held.since + patience.hold_s(held.frame)
                self.held[sequence] = held._replace(until=until)
                known_more |= until > now
        for sequence, held in self.held.items() if known_more else ():
            until = held.since + patience.hold_s(held.frame)
            if held.until < until:
                self.held[sequence] = held._replace(until=until)
        self._due = None

    def take(self, sequence: int) -> _Held:
        """A frame need not wait any more."""
        self._due = None
        held = self.held.pop(sequence)
        while self._order and self._order[0] not in self.held:
            heappop(self._order)
        return held

    @property
    def first_held(self) -> int:
        """The lowest sequence that waits; asked again and again while a gap lasts."""
        return self._order[0]

    @property
    def due(self) -> float:
        """When the first of the frames has waited for long enough."""
        if self._due is None:
            self._due = min(held.until for held in self.held.values())
        return self._due

    def gap_is_certain(self, now: float) -> bool:
        """Whether what is missing before the first held frame was dropped, as far as can be seen here."""
        return all(
            way.since <= now - SETTLED_S and way.highest >= self.first_held
            for way in self.ways.values()
            if way.last >= now - SETTLED_S
        )


class Resequencer:
    """Orders the frames of many flows; what it holds is bounded in bytes, number and time."""

    def __init__(self, patience: Holding, own_bit: int = -1) -> None:
        self._patience = patience
        self._own_bit = own_bit
        self._flows: KeptFlows[_Flow] = KeptFlows(MAX_FLOWS)
        self._holding: dict[FlowKey, _Flow] = {}
        self._newest: dict[int, int] = {}
        """The latest life of each origin of which a flow is known."""
        self._held_bytes = self._held_frames = 0
        self.gaps = 0
        """Gaps that were given up."""
        self.out_of_turn = 0
        """Frames that came after they were given up."""

    def remember(self, name: Name) -> None:
        """A frame was delivered by an earlier life of this gateway: those after it are still to come."""
        flow = self._flows.get(name[:3]) or self._begin(name[:3], 0.0, [])
        flow.next = max(flow.next, name.sequence + 1)

    def arrived(self, frame: Frame, now: float) -> list[Frame]:
        """A new frame; the frames that can be delivered now, in order."""
        ready: list[Frame] = []
        key = (frame.origin, frame.epoch, frame.flow_id)
        flow = self._flows.use(key) or self._begin(key, now, ready)
        if flow.next == ANYWHERE:
            flow.join(frame)
        flow.saw(frame, now)
        if frame.sequence < flow.next:
            self.out_of_turn += 1
            return [*ready, frame]
        in_turn = frame.sequence == flow.next and not flow.held and not flow.waiters
        if in_turn and not (frame.predecessors and self._own(frame)):
            flow.next += 1
            ready.append(frame)
            return ready
        flow.keep(_Held(frame, now, now + self._patience.hold_s(frame)))
        self._held_bytes += frame.weight_bytes
        self._held_frames += 1
        self._advance(flow, now, ready)
        while self._held_bytes > MAX_HELD_BYTES or self._held_frames > MAX_HELD_FRAMES:
            crowded = next(iter(self._holding.values()))
            self._give_up(crowded, crowded.first_held, now, ready)
        self._expire(flow, now, ready)
        return ready

    def repeated(self, frame: Frame, now: float) -> list[Frame]:
        """A frame came again: its way has passed what is before it."""
        ready: list[Frame] = []
        flow = self._flows.get((frame.origin, frame.epoch, frame.flow_id))
        if flow is not None:
            flow.saw(frame, now)
            if flow.held:
                self._advance(flow, now, ready)
        return ready

    @property
    def holds_frames(self) -> bool:
        """Whether any frame waits for another."""
        return bool(self._holding)

    def timer(self) -> float | None:
        """When a frame has been held for long enough."""
        return min((flow.due for flow in self._holding.values()), default=None)

    def expired(self, now: float) -> list[Frame]:
        """Frames that have been held for long enough, with all that come before them."""
        ready: list[Frame] = []
        for flow in list(self._holding.values()):
            self._expire(flow, now, ready)
        return ready

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        weights = [each.frame.weight_bytes for _, flow in self._flows.items() for each in flow.held.values()]
        held, counted = (sum(weights), len(weights)), (self._held_bytes, self._held_frames)
        found = [] if held == counted else [f"{held} bytes and frames held, {counted} are counted"]
        if {key for key, flow in self._flows.items() if flow.held} != self._holding.keys():
            found.append("a flow that holds frames is not watched, or one that holds none is")
        for flow in self._holding.values():
            first = flow.held.get(min(flow.held)) if flow.held else None
            if first is not None and first.frame.sequence <= flow.next and not first.frame.predecessors:
                found.append("a frame is held although its turn has come")
        return found

    # -- inside -------------------------------------------------------------------------------------------

    def _begin(self, key: FlowKey, now: float, ready: list[Frame]) -> _Flow:
        """A flow that is not known here; what the one that makes room for it has held goes on."""
        flow = _Flow(key)
        forgotten = self._flows.add(key, flow)
        if forgotten is not None:
            self._empty(forgotten, now, ready)
        origin, epoch, _ = key
        if epoch > self._newest.get(origin, -1):
            self._newest[origin] = epoch
            for other in list(self._holding.values()):
                if other.key[0] == origin and other.key[1] < epoch:  # the origin has started again since
                    self._empty(other, now, ready)
        return flow

    def _empty(self, flow: _Flow, now: float, ready: list[Frame]) -> None:
        """Nothing more is waited for: let out all that is held."""
        ready += [_aged(self._take(flow, sequence), now) for sequence in sorted(flow.held)]

    def _take(self, flow: _Flow, sequence: int) -> _Held:
        held = flow.take(sequence)
        self._held_bytes -= held.frame.weight_bytes
        self._held_frames -= 1
        if not flow.held:
            self._holding.pop(flow.key, None)
        return held

    def _advance(self, flow: _Flow, now: float, ready: list[Frame]) -> None:
        """Let out what is due, here and in the flows that waited for this one."""
        waiting = [flow]
        while waiting:
            flow = waiting.pop()
            before = flow.next
            self._release(flow, now, ready)
            if flow.next != before:
                waiting += flow.waiters.values()
                flow.waiters = {}

    def _release(self, flow: _Flow, now: float, ready: list[Frame]) -> None:
        while flow.held:
            held = flow.held.get(flow.next)
            if held is None:
                if not flow.gap_is_certain(now):
                    break
                self.gaps += 1
                flow.next = flow.first_held
            elif self._must_wait(flow, held.frame, now, ready):
                break
            else:
                self._take(flow, flow.next)
                flow.next += 1
                ready.append(_aged(held, now))
        if flow.held:
            self._holding[flow.key] = flow

    def _own(self, frame: Frame) -> list[Predecessor]:
        return [each for each in frame.predecessors if each.destinations & self._own_bit][:MAX_LINKED]

    def _must_wait(self, flow: _Flow, frame: Frame, now: float, ready: list[Frame]) -> bool:
        """Whether a predecessor in another flow is still to come.

        It may be the last of very many that nothing has been heard of here: all waited while no way led here.
        """
        for flow_id, sequence, _ in self._own(frame):
            other = self._flows.get((frame.origin, frame.epoch, flow_id))
            if other is None:
                if sequence < 1:  # nothing is waited for, and no flow need make room
                    continue
                other = self._begin((frame.origin, frame.epoch, flow_id), now, ready)
            if other.next <= sequence and other is not flow:
                other.waiters[flow.key] = flow
                return True
        return False

    def _expire(self, flow: _Flow, now: float, ready: list[Frame]) -> None:
        if flow.held and flow.due <= now:
            flow.prolong(self._patience, now)
        if flow.held and flow.due <= now:
            due = max(sequence for sequence, held in flow.held.items() if held.until <= now)
            self._give_up(flow, due, now, ready)

    def _give_up(self, flow: _Flow, sequence: int, now: float, ready: list[Frame]) -> None:
        """Wait no longer for what comes up to a frame; what is there of it goes, and what waited for it."""
        moved: list[_Flow] = []
        self._let_go(flow, sequence, now, ready, moved)
        for each in moved:
            waiters, each.waiters = each.waiters, {}
            for waiter in (each, *waiters.values()):
                self._advance(waiter, now, ready)

    def _let_go(self, flow: _Flow, sequence: int, now: float, ready: list[Frame], moved: list[_Flow]) -> None:
        """Let out what is there up to a frame, each after its predecessors; `moved` are flows that did."""
        if flow.next > sequence or len(moved) > MAX_LINKED:
            return
        self.gaps += 1
        flow.next = sequence + 1  # first, so that flows which wait for each other come to an end
        moved.append(flow)
        for number in sorted(number for number in flow.held if number <= sequence):
            if number not in flow.held:
                continue  # let out by another flow, which says that it comes after more of this one
            held = self._take(flow, number)
            for predecessor in self._own(held.frame):
                other = self._flows.get((held.frame.origin, held.frame.epoch, predecessor.flow_id))
                if other is not None:
                    self._let_go(other, predecessor.sequence, now, ready, moved)
            ready.append(_aged(held, now))


def _aged(held: _Held, now: float) -> Frame:
    return held.frame.older(now - held.since) if now > held.since else held.frame
