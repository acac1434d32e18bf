"""Bodies of frames on their way to the head broker: held while it cannot take them, then sorted line by line.

Of the queue groups that a message names, those are served that have members here; for the others it is sent
on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mangrove.gateway.head.inward.absent import ForAbsent
from mangrove.gateway.head.inward.queue import FROM_HERE, HeadQueue
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.mediation.manner import AS_IT_IS, EACH, Manner
from mangrove.gateway.mediation.mediation import Mediation
from mangrove.gateway.mediation.way_tables import WayTables
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.model.topics import Queue
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.flows import HOP_LIMIT
from mangrove.overlay.forwarding.retargeting import jobs_apart, retarget_body
from mangrove.overlay.protocol.bodies import Gathered, WireError

log = logging.getLogger(__name__)

QUEUE_FULL = "queue to the head broker full"
MALFORMED = "malformed body"
NO_MEMBER = "no member of the queue group is left"


class InwardBodies:
    """Hands bodies to the broker in the order in which they came, as far as their subscribers are there."""

    def __init__(
        self,
        engine: OverlayEngine,
        ledger: Ledger,
        lines: WayTables,
        *,
        queue_bytes: int,
        absent: ForAbsent,
        departed: Gathered,
        flush: Callable[[], None],
        mirrors: MirrorPlane | None,
    ) -> None:
        """`lines` sort messages to the broker, or to `absent` or `departed`; `flush` sends on what leaves."""
        self._engine = engine
        self._ledger = ledger
        self._lines = lines
        self._absent = absent
        self._departed = departed.messages
        """Messages for queue groups that have no member here any more."""
        self._flush = flush
        self._mirrors = mirrors
        self.mediation: Mediation | None = None
        """What transforms messages, as soon as some are to be."""
        self.queue = HeadQueue(queue_bytes, self._hand_over, lambda body: ledger.drop_body(body, QUEUE_FULL))
        self._given_up = False
        """Whether the broker was there, is away, and its subscribers are not expected any more."""

    def attached(self) -> None:
        """The broker is there, and nobody is given up any more."""
        self._given_up = False

    def give_up(self) -> None:
        """The broker is away, and its subscribers are not expected any more: jobs do not wait for it."""
        self._given_up = True
        for waiting in self.queue.take_out():
            self._enqueue(*waiting)

    def deliver(
        self, body: bytes, hop_limit: int = HOP_LIMIT, topic_class: int | None = None, origin: str = FROM_HERE
    ) -> None:
        """Hand the messages of a frame to the head broker, now or when it can take them.

        Second copies of mirrored topics go to the edges at once, whatever the head does.
        """
        if self._mirrors is not None and topic_class is not None:
            body = self._mirrors.arrived(body, topic_class, origin)
        self._enqueue(body, hop_limit, origin, self._manner_of(topic_class))

    def _manner_of(self, topic_class: int | None) -> Manner:
        """How messages of a class come in; mostly as they are."""
        if topic_class is None:
            return AS_IT_IS
        each = self._engine.rules.contract_at(topic_class).queue is Queue.LOCAL_EACH
        way = None if self.mediation is None else self.mediation.way_in(topic_class)
        if way is None:
            return EACH if each else AS_IT_IS
        return Manner(way, each)

    def _enqueue(self, body: bytes, hop_limit: int, origin: str, manner: Manner) -> None:
        if self._given_up:
            body, jobs = jobs_apart(body)
            if jobs:
                self.retarget(jobs, self._engine.own_bit, hop_limit, origin)
        if body:
            self.queue.send(body, hop_limit, origin, manner)

    def deliver_transformed(self, body: bytes, origin: str) -> None:
        """What was transformed comes in like all else, but goes nowhere else: there it would be again."""
        self._enqueue(body, 1, origin, AS_IT_IS)

    def offer_again(self) -> None:
        """What waits for absent subscribers goes out as far as they are back."""
        for waiting in self._absent.take_out():
            self.queue.send(*waiting)

    def retarget(self, body: bytes, away: int, hop_limit: int, origin: str = FROM_HERE) -> bool:
        """Send messages for queue groups to whoever has members, as the domains `away` do not serve them.

        Returns False, and does nothing, if nobody has: then they must wait.
        """
        home = Gathered()
        outcome = retarget_body(body, away, hop_limit, self._engine, home)
        if outcome.stays:
            return False
        self._ledger.sent_on += outcome.sent_on
        for topic, count in outcome.lost.items():
            self._ledger.drop(topic, NO_MEMBER, count)
        if outcome.malformed:
            self._ledger.refuse_body(MALFORMED)
        if home.messages:
            own = origin == self._engine.domain
            self.queue.send(b"".join(home.messages), hop_limit - 1, FROM_HERE if own else origin)
        self._flush()
        return True

    def _hand_over(self, body: bytes, hop_limit: int, origin: str, manner: Manner = AS_IT_IS) -> None:
        absent = self._absent
        absent.hop_limit, absent.origin, absent.manner = hop_limit, origin, manner
        lines = self._lines.of(manner)
        try:
            lines.take(origin, body)
        except WireError as error:
            log.error("refused the rest of a frame from another domain: %s", error)
            self._ledger.refuse_body(MALFORMED)
        lines.book_requests(self._ledger.delivered)
        if self._departed:
            departed = b"".join(self._departed)
            self._departed.clear()
            self.retarget(departed, self._engine.own_bit, hop_limit, origin)
