"""Interest between neighbours: what is told, in which order, and who is asked again.

What changed here and elsewhere is known at once. Telling it and acting upon it is done in slices, so that a
storm of subscriptions delays nobody's messages and heartbeats. What somebody here wants is told at once, what
nobody wants any more a moment later: who subscribes and unsubscribes without end costs the others little.
"""

from __future__ import annotations

from collections.abc import Iterable

from mangrove.overlay.instructions import Instruction, ResetTimer, SendFrame, send_control
from mangrove.overlay.interest.interest_outbox import InterestOutbox
from mangrove.overlay.interest.local_interest import LocalInterest
from mangrove.overlay.interest.remote_interest import RemoteInterest
from mangrove.overlay.interest.snapshots import Snapshot
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate, control_frame
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.trust.table_hash import leaf_of

WITHDRAW_AFTER_S = 0.02
"""How long a want must be gone before the others are told; one that returns meanwhile was never away."""


class InterestExchange:
    """What this gateway tells its neighbours of interest, and what it hears from them."""

    def __init__(self, local: LocalInterest, remote: RemoteInterest, neighbours: Neighbours) -> None:
        self._local = local
        self._remote = remote
        if remote.interest.signed:
            local.tell_together(leaf_of)
        self._neighbours = neighbours
        self._outboxes = {neighbour.name: InterestOutbox() for neighbour in neighbours}
        self._withdraw_at: float | None = None
        """When wants that are gone may be told; None if there are none."""

    def adopt(self) -> None:
        """Other neighbours are there."""
        self._outboxes = {
            neighbour.name: self._outboxes.get(neighbour.name) or InterestOutbox()
            for neighbour in self._neighbours
        }

    def timer(self) -> float | None:
        """When there is something to tell or to act upon: at once, most often."""
        return 0.0 if self._remote.busy or self._local.additions else self._withdraw_at

    def peer_up(self, peer: str) -> list[Instruction]:
        """A neighbour is there: compare what both know."""
        return [send_control(peer, self._remote.digest())]

    def peer_down(self, peer: str) -> list[Instruction]:
        """A neighbour is gone; what it owed, others are asked for."""
        self._outboxes[peer].clear()
        if not self._remote.interest.forget_peer(peer):
            return []
        digest = self._remote.digest()
        return [send_control(other, digest) for other in self._neighbours.connected() if other != peer]

    def receive(self, peer: str, update: InterestUpdate) -> list[Instruction]:
        """Take in an update, and pass it on if it is news."""
        news, gap = self._remote.receive(update, peer)
        instructions: list[Instruction] = []
        if news and update.snapshot:
            for other in self._neighbours.connected():
                if other != peer:
                    instructions += self._tell(other, [self._remote.interest.snapshot(update.origin)])
        elif news:
            instructions += self._flood(update, peer)
        if gap:
            instructions.append(send_control(peer, self._remote.digest()))
        return instructions

    def answer(self, peer: str, digest: Digest) -> list[Instruction]:
        """Send what the sender of a digest lacks."""
        return self._tell(peer, self._remote.missing_from(digest))

    def pass_on(self, now: float, *, at_once: bool = False) -> list[Instruction]:
        """Tell a slice of what changed in the own domain; the rest follows when the timer is served.

        What is gone is told `at_once` where it was away for long already.
        """
        held = self._withdraw_at
        if held is None and not at_once and not self._local.pending and not self._remote.busy:
            return []
        if at_once:
            self._withdraw_at = now
        elif not self._local.withdrawals:
            self._withdraw_at = None
        elif held is None:
            self._withdraw_at = now + WITHDRAW_AFTER_S
        withdraw = self._withdraw_at is not None and now >= self._withdraw_at
        instructions: list[Instruction] = []
        if withdraw or self._local.additions:
            update = self._remote.change_local(*self._local.take_changes(withdraw=withdraw))
            if update is not None:
                instructions = self._flood(update, None)
        due = self.timer()
        return [*instructions, ResetTimer()] if due is not None and due != held else instructions

    def limit(self, max_subjects: int) -> list[Instruction]:
        """Each domain may want so many subjects from now on."""
        update = self._remote.interest.limit(max_subjects)
        return [] if update is None else self._flood(update, None)

    def restate(self) -> list[Instruction]:
        """The keys have changed: sign anew what the own domain wants, and tell everybody."""
        return self._flood(self._remote.interest.restate(), None)

    def pull(self, peer: str, now: float) -> Frame | None:
        """The frame to send to a neighbour now: the most urgent data, or interest; None if none may go."""
        outgoing, outbox = self._neighbours[peer].outgoing, self._outboxes[peer]
        if not outbox.waits:
            return outgoing.pull(now)
        if not outbox.turn(outgoing.backlogged):
            frame = outgoing.pull(now)
            if frame is not None:
                outbox.data_went(len(frame.body))
                return frame
            # Data waits for acknowledgements: no reason for interest to wait too.
        if (domain := outbox.overdue()) is not None:
            outbox.tell(self._remote.interest.snapshot(domain))
        return outbox.pull()

    def _flood(self, update: InterestUpdate, source: str | None) -> list[Instruction]:
        frame = control_frame(update)
        return [
            SendFrame(peer, frame)
            if self._outboxes[peer].offer(update, frame)
            else self._neighbours[peer].serve
            for peer in self._neighbours.connected()
            if peer != source
        ]

    def _tell(self, peer: str, snapshots: Iterable[Snapshot]) -> list[Instruction]:
        """Send small snapshots at once, and let large ones wait for their turn."""
        instructions: list[Instruction] = []
        outbox = self._outboxes[peer]
        for snapshot in snapshots:
            if snapshot.small and not outbox.waits:
                instructions.append(send_control(peer, snapshot.next_part()))
            else:
                outbox.tell(snapshot)
                instructions.append(self._neighbours[peer].serve)
        return instructions
