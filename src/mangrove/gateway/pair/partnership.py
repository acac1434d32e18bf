"""A gateway as one of two: what it tells the other one before it acts, and what it takes from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic

from mangrove.gateway.audience.leave_mark import LeaveMark
from mangrove.gateway.delivery_journal import DeliveryJournal
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.pair.pair import Pair
from mangrove.gateway.sealing.sealed_traffic import SealedTraffic
from mangrove.gateway.versions import Versions
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import DeliverMessages, Instruction
from mangrove.overlay.pair.messages import Figures
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate
from mangrove.overlay.protocol.frames import Frame, Name

BOOK_SHARE = 100
"""Books are brought up to date for the other gateway so seldom that it takes a hundredth of the time."""
LATER_S = 0.01
"""When the event loop has written what it was given."""
WITHHELD = "came while it was not certain which gateway carries"


class Partnership:
    """Joins one life of a gateway to the pair that its process belongs to."""

    def __init__(
        self,
        pair: Pair,
        engine: OverlayEngine,
        head: HeadConnection,
        ledger: Ledger,
        sealed: SealedTraffic,
        journal: DeliveryJournal,
        mark: LeaveMark,
        carry_out: Callable[[list[Instruction]], None],
        versions: Versions | None = None,
    ) -> None:
        self.pair = pair
        self._engine = engine
        self._head = head
        self._ledger = ledger
        self._sealed = sealed
        self._journal = journal
        self._mark = mark
        self._carry_out = carry_out
        self._withheld: list[DeliverMessages] = []
        """What waits for the other gateway to say that this one still carries."""
        self._withheld_bytes = 0
        self._told_later: list[Name] = []
        self._book_at = 0.0
        self._versions = versions
        if versions is not None:
            versions.tell_other = pair.tell_versions
        pair.serve(self)

    # -- deliveries ---------------------------------------------------------------------------------------

    def agreed(self, instructions: list[Instruction]) -> list[Instruction]:
        """What may be done now: what is delivered is told to the other gateway before.

        Nothing is delivered while this one cannot know that it still carries.
        """
        deliveries = [each for each in instructions if isinstance(each, DeliverMessages)]
        if not deliveries:
            return instructions
        if self.pair.may_deliver():
            self._tell([each.frame for each in deliveries])
            return instructions
        for each in deliveries:
            self._withheld_bytes += len(each.frame.body)
            if self._withheld_bytes <= self._engine.federation.queue_bytes:
                self._withheld.append(each)
            else:
                self._sealed.drop(each.frame, WITHHELD)
        return [each for each in instructions if not isinstance(each, DeliverMessages)]

    def _tell(self, frames: list[Frame]) -> None:
        """Who dies between word and deed has lost what he spoke of; the other way round, it comes twice.

        So frames are told before they are delivered, unless their contract is mirrored: then subscribers tell
        copies apart, nothing must be lost, and they are told when they have left this process.
        """
        rules = self._engine.rules
        before = [frame.name for frame in frames if not rules.contract_at(frame.topic_class).mirror]
        if before:
            self.pair.tell_names(before)
        if len(before) < len(frames):
            told = set(before)
            if not self._told_later:
                asyncio.get_running_loop().call_later(LATER_S, self._tell_later)
            self._told_later += [frame.name for frame in frames if frame.name not in told]

    def _tell_later(self) -> None:
        names, self._told_later = self._told_later, []
        self.pair.tell_names(names)

    def cleared(self) -> None:
        """The other gateway stands by, or is not there: deliver what was withheld."""
        self._carry_out([*self._take_withheld()])

    def _take_withheld(self) -> list[DeliverMessages]:
        withheld, self._withheld = self._withheld, []
        self._withheld_bytes = 0
        return withheld

    def delivered_names(self) -> list[Name]:
        """The frames that were delivered last."""
        return self._journal.names()

    def told_names(self, names: list[Name]) -> None:
        """The other gateway delivers these frames: this one never will."""
        self._journal.note(names)
        self._engine.remember(names)

    # -- interest -----------------------------------------------------------------------------------------

    def told_interest(self, update: InterestUpdate) -> bool:
        """What another domain wants, from the other gateway; whether something is missing in between."""
        if not self._engine.standing_by:
            return False
        instructions, gap = self._engine.overhear(update, monotonic())
        self._carry_out(instructions)
        return gap

    def interest_digest(self) -> Digest:
        """What is known of all domains' interest."""
        return self._engine.interest_digest()

    def interest_beyond(self, digest: Digest) -> Iterator[InterestUpdate]:
        """What somebody lacks who knows so much."""
        return self._engine.interest_beyond(digest)

    # -- versions -----------------------------------------------------------------------------------------

    def kept_versions(self) -> KeptVersions:
        """What this gateway has written down of versions of the federation document."""
        return self._engine.kept_versions()

    def told_versions(self, kept: KeptVersions) -> None:
        """What the gateway that carries has written down: this one must not forget it either."""
        if self._engine.standing_by:
            if self._versions is not None:
                self._versions.keep_told(kept)
            self._carry_out(self._engine.recall(kept, monotonic()))

    # -- accounts -----------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """What the other gateway should know if this one dies."""
        now = monotonic()
        if now >= self._book_at:
            self._head.book()
            self._book_at = monotonic() + BOOK_SHARE * (monotonic() - now)
        totals = self._ledger.history.totals
        return Figures(
            sent=totals.sent.total,
            delivered=totals.delivered.total,
            given_up=self.pair.given_up,
            leaves_s=self._mark.left_s(),
            broker=self._head.broker if self._head.connected else "",
        )

    def other_at(self, broker: str) -> None:
        """The gateway that carries is attached there."""
        self._head.other_at(broker)

    def let_go(self, reason: str) -> None:
        """Count what dies with this life: the other gateway carries what comes from now on."""
        now = monotonic()
        frames = [*self._engine.abandon(now), *(each.frame for each in self._take_withheld())]
        given_up = sum(map(self._sealed.messages_in, frames))
        self.pair.given_up += given_up
        self._engine.displaced(reason, given_up, now)
