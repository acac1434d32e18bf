"""The last step: a frame for this domain is new or not, in time or late, in order or held for its turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mangrove.model.federation import Federation
from mangrove.model.topics import Late, Order
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.delivery.delay_record import DelayRecord
from mangrove.overlay.delivery.ordered_flow import Holding
from mangrove.overlay.delivery.resequencer import Resequencer
from mangrove.overlay.delivery.seen_frames import SeenFrames, Verdict
from mangrove.overlay.instructions import DeliverMessages, DropMessages, Instruction, ResetTimer
from mangrove.overlay.protocol.frames import Frame, Name

_GAIN = 0.05


class Delivery:
    """Judges frames for this domain and keeps account of how long they took."""

    def __init__(
        self, federation: Federation, own_bit: int, patience: Holding, rules: Rules | None = None
    ) -> None:
        self._rules = rules or federation.topics
        self._order = federation.domain_order
        self._seen = SeenFrames()
        self._back = SeenFrames()
        """Of this domain's own: nobody can push them out with frames in other names."""
        self.resequencer = Resequencer(patience, own_bit)
        self._next_timer: float | None = None
        self.egress_ms = 0.0
        """How long messages take from here to a subscriber."""
        self.verdicts: Counter[Verdict] = Counter()
        self.late: Counter[tuple[str, int]] = Counter()
        """Frames that came after their deadline, by origin and topic class."""
        self.copies: Counter[tuple[str, int]] = Counter()
        """Frames that came again, and were not delivered again."""
        self.observed_ms: dict[tuple[str, int], float] = {}
        """Smoothed time from publish to delivery, by origin and topic class."""
        self.delays: dict[tuple[str, int], DelayRecord] = {}
        """How these times are spread."""

    def remember(self, names: Iterable[Name]) -> None:
        """Frames that an earlier life of this gateway has delivered."""
        for name in sorted(names):
            self._seen.check(name)
            self.resequencer.remember(name)

    def adopt(self, order: tuple[str, ...]) -> None:
        """Other domains are members; frames of those that have left may still come."""
        self._order = order

    def contracts_changed(self) -> None:
        """Forget how long it took under contracts that nobody knows any more."""
        known = {*self._rules.known(), self._rules.unmatched}
        for key in [key for key in self.observed_ms if key[1] not in known]:
            del self.observed_ms[key], self.delays[key]

    def arrived(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame that names this domain among its destinations."""
        verdict = self._seen.check(frame.name)
        self.verdicts[verdict] += 1
        if verdict is Verdict.TOO_OLD:
            return [DropMessages(frame, "too old to be told from a duplicate")]
        ordered = self._rules.contract_at(frame.topic_class).order is Order.PUBLISHER
        if verdict is Verdict.DUPLICATE:
            self.copies[self._account_of(frame)] += 1
            return self._finish(self.resequencer.repeated(frame, now)) if ordered else []
        self._observe(frame)
        if not ordered:
            return self._finish([frame])
        ready = self.resequencer.arrived(frame, now)
        instructions = self._finish(ready)
        if len(ready) == 1 and ready[0] is frame:
            return instructions  # nobody waits for longer, or for less
        if self.resequencer.holds_frames and (timer := self.resequencer.timer()) != self._next_timer:
            self._next_timer = timer
            instructions.append(ResetTimer())
        return instructions

    def came_back(self, frame: Frame) -> Verdict:
        """Judge a frame of this domain's own that was turned back: once is enough."""
        return self._back.check(frame.name)

    def expire(self, now: float) -> list[Instruction]:
        """Frames that need not wait any longer for those before them."""
        return self._finish(self.resequencer.expired(now))

    def _finish(self, frames: list[Frame]) -> list[Instruction]:
        instructions: list[Instruction] = []
        for frame in frames:
            contract = self._rules.contract_at(frame.topic_class)
            age_ms = frame.age_us / 1000
            if contract.deadline_ms is not None and age_ms + self.egress_ms > contract.deadline_ms:
                self.late[self._account_of(frame)] += 1
                # What is to come is an estimate, and nothing is thrown away because of one.
                if contract.late is Late.DROP and age_ms > contract.deadline_ms:
                    instructions.append(DropMessages(frame, "late"))
                    continue
            instructions.append(DeliverMessages(frame))
        return instructions

    def _account_of(self, frame: Frame) -> tuple[str, int]:
        return self._order[frame.origin], self._rules.account_of(frame.topic_class)

    def _observe(self, frame: Frame) -> None:
        key = self._account_of(frame)
        age_ms = frame.age_us / 1000 + self.egress_ms
        before = self.observed_ms.get(key)
        if before is None:
            self.delays[key] = DelayRecord()
        self.observed_ms[key] = age_ms if before is None else before + _GAIN * (age_ms - before)
        self.delays[key].add(age_ms)
