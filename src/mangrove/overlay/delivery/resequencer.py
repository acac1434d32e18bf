"""Puts frames back into the order in which their origin sent them (`order: publisher`, the default).

Several paths, or a change of path, let frames overtake each other. A frame that is ahead of its turn is held
until those before it have come: the earlier ones of its flow, and the predecessors that it names in other
flows (a subject moves to another flow when its destinations change). No frame is held longer than patience
allows; then everything before it is given up. What comes after it was given up is delivered at once: late is
better than lost.

What was dropped on its way is not waited for where that shows (`ordered_flow`).
"""

from __future__ import annotations

from mangrove.overlay.delivery.kept_flows import FlowKey, KeptFlows
from mangrove.overlay.delivery.ordered_flow import ANYWHERE, Held, Holding, OrderedFlow
from mangrove.overlay.protocol.frames import Frame, Name, Predecessor, most_frames

MAX_FLOWS = 4096
MAX_HELD_BYTES = 16 << 20
MAX_HELD_FRAMES = most_frames(MAX_HELD_BYTES)
MAX_LINKED = 64
"""So many flows does a frame wait for, and are followed from one to the next when a frame is given up."""


class Resequencer:
    """Orders the frames of many flows; what it holds is bounded in bytes, number and time."""

    def __init__(self, patience: Holding, own_bit: int = -1) -> None:
        self._patience = patience
        self._own_bit = own_bit
        self._flows: KeptFlows[OrderedFlow] = KeptFlows(MAX_FLOWS)
        self._holding: dict[FlowKey, OrderedFlow] = {}
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
        flow.keep(Held(frame, now, now + self._patience.hold_s(frame)))
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

    def _begin(self, key: FlowKey, now: float, ready: list[Frame]) -> OrderedFlow:
        """A flow that is not known here; what the one that makes room for it has held goes on."""
        flow = OrderedFlow(key)
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

    def _empty(self, flow: OrderedFlow, now: float, ready: list[Frame]) -> None:
        """Nothing more is waited for: let out all that is held."""
        ready += [_aged(self._take(flow, sequence), now) for sequence in sorted(flow.held)]

    def _take(self, flow: OrderedFlow, sequence: int) -> Held:
        held = flow.take(sequence)
        self._held_bytes -= held.frame.weight_bytes
        self._held_frames -= 1
        if not flow.held:
            self._holding.pop(flow.key, None)
        return held

    def _advance(self, flow: OrderedFlow, now: float, ready: list[Frame]) -> None:
        """Let out what is due, here and in the flows that waited for this one."""
        waiting = [flow]
        while waiting:
            flow = waiting.pop()
            before = flow.next
            self._release(flow, now, ready)
            if flow.next != before:
                waiting += flow.waiters.values()
                flow.waiters = {}

    def _release(self, flow: OrderedFlow, now: float, ready: list[Frame]) -> None:
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

    def _must_wait(self, flow: OrderedFlow, frame: Frame, now: float, ready: list[Frame]) -> bool:
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

    def _expire(self, flow: OrderedFlow, now: float, ready: list[Frame]) -> None:
        if flow.held and flow.due <= now:
            flow.prolong(self._patience, now)
        if flow.held and flow.due <= now:
            due = max(sequence for sequence, held in flow.held.items() if held.until <= now)
            self._give_up(flow, due, now, ready)

    def _give_up(self, flow: OrderedFlow, sequence: int, now: float, ready: list[Frame]) -> None:
        """Wait no longer for what comes up to a frame; what is there of it goes, and what waited for it."""
        moved: list[OrderedFlow] = []
        self._let_go(flow, sequence, now, ready, moved)
        for each in moved:
            waiters, each.waiters = each.waiters, {}
            for waiter in (each, *waiters.values()):
                self._advance(waiter, now, ready)

    def _let_go(
        self, flow: OrderedFlow, sequence: int, now: float, ready: list[Frame], moved: list[OrderedFlow]
    ) -> None:
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


def _aged(held: Held, now: float) -> Frame:
    return held.frame.older(now - held.since) if now > held.since else held.frame
