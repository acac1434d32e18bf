"""The gateway's side towards its own brokers: where messages go, and what is booked.

Outward: messages that other domains want are sorted into the engine's flows, a buffer at a time. Inward: the
bodies of frames are checked and handed to the head broker as they came; of the queue groups that a message
names, those are served that have members here, and for the others it is sent on. Interest of the domain's
subscribers arrives by itself. How all this is said to a broker is a matter of its kind
(`mangrove.broker.attachment`); here everything is in the format of a frame's body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic

from mangrove.broker.attachment import Attachment, AttachmentOwner
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.head.interest import DomainInterest, NobodySilent, Silence
from mangrove.gateway.head.inward.absent import ForAbsent
from mangrove.gateway.head.inward.bodies import InwardBodies
from mangrove.gateway.head.inward.lines import InwardLines, LetterBox
from mangrove.gateway.head.markers import Markers
from mangrove.gateway.head.outward.lines import OutwardLines
from mangrove.gateway.head.outward.questions import Questions
from mangrove.gateway.head.outward.ways_out import WaysOut
from mangrove.gateway.head.replies import Replies
from mangrove.gateway.head.subscriptions import Applied, HeadSubscriptions
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.limits.arrivals import ArrivalLimits
from mangrove.gateway.limits.departures import DepartureLimits
from mangrove.gateway.line_table import LineTable
from mangrove.gateway.mediation.mediation import Mediation
from mangrove.gateway.mediation.way_tables import WayTables
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.naming.renamed_attachment import RenamedAttachment
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.selecting.selecting_subscribers import SelectingSubscribers
from mangrove.model.subjects import REPLY_PREFIX, ingress_marker_subject, subject_problem
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.bodies import Flow, Gathered

NOT_BACK = "too much waits for subscribers that went with their broker"


class HeadConnection:
    """Owns the attachment to the head broker and carries messages through it in both directions."""

    def __init__(
        self,
        engine: OverlayEngine,
        attach: Callable[[AttachmentOwner], Attachment],
        ledger: Ledger,
        *,
        max_message_bytes: int,
        queue_bytes: int,
        buffer_done: Callable[[], None],
        confirmed: Callable[[Applied], None],
        letters: LetterBox | None = None,
        markers: Flow | None = None,
        directions: bytes = b"",
        silence: Silence | None = None,
        mirrors: MirrorPlane | None = None,
        border_book: BorderBook | None = None,
        names: SiteNames | None = None,
        mediation: Mediation | None = None,
    ) -> None:
        """`letters` takes what other gateways say to this one, `markers` what the site's probe publishes.

        `directions` is the answer to clients that ask for them; empty, nobody is answered. Without `silence`,
        no publisher is ever silent; without `mirrors`, no topic has second copies. What the rules of access
        refuse is entered in the `border_book`. By its `names` the domain may call things otherwise than the
        federation does; here all is in the federation's names, but for lines that come from the broker.
        Without `mediation`, no message is transformed.
        """
        self._engine = engine
        self._ledger = ledger
        self._buffer_done = buffer_done
        self._silence: Silence = NobodySilent() if silence is None else silence
        self._mirrors = mirrors
        self._names = names = names or SiteNames()
        self._mediation: Mediation | None = None
        border_book = border_book or BorderBook()
        federation = engine.federation
        marker_in = ingress_marker_subject(engine.domain)
        replies = Replies(engine)
        self.selecting = SelectingSubscribers(engine.domain)
        self.departures = DepartureLimits(engine.rules, federation.limits.client, ledger, self._forget_lines)
        self.arrivals = ArrivalLimits(engine.rules, federation.congestion, ledger, self._limits_changed)

        self._questions = Questions(directions, self._silence.when_known)
        self._ways_out = WaysOut(engine, ledger, buffer_done)
        self._outward_lines = OutwardLines(
            engine,
            ledger,
            border_book,
            self._ways_out,
            replies,
            self._questions,
            self.departures,
            max_message_bytes=max_message_bytes,
            markers=markers,
            mirrors=mirrors,
            names=names,
        )
        self.sorter = LineTable(self._outward_lines.judge, self._forget_lines)
        self._attachment = RenamedAttachment(names, attach, self)
        self._questions.join(self._attachment)

        absent = ForAbsent(queue_bytes, lambda body: ledger.drop_body(body, NOT_BACK))
        departed = Gathered()
        inward_lines = InwardLines(
            engine,
            ledger,
            border_book,
            self._attachment,
            replies,
            self.arrivals,
            self.selecting,
            absent=absent,
            departed=departed,
            letters=letters,
            names=names,
        )
        self._inward_tables = WayTables(engine.border, inward_lines.judge, self._forget_lines)
        self._inward = InwardBodies(
            engine,
            ledger,
            self._inward_tables,
            queue_bytes=queue_bytes,
            absent=absent,
            departed=departed,
            flush=buffer_done,
            mirrors=mirrors,
        )
        self._queue = self._inward.queue
        self.deliver = self._inward.deliver  # for each frame, so without a step in between
        self.retarget = self._inward.retarget

        self._markers = Markers(engine.domain, self._attachment, self._queue)
        self._regrouped: dict[str, None] = {}
        """Subjects whose queue groups changed while the present buffer was read."""
        self._interest = DomainInterest(
            engine,
            ledger,
            self._attachment,
            self.selecting,
            self._markers,
            self._silence,
            absent=absent,
            regrouped=self._regroup,
            mirrors=mirrors,
        )
        own = [f"{REPLY_PREFIX}>"] if markers is None else [f"{REPLY_PREFIX}>", marker_in]
        self._subscriptions = HeadSubscriptions(
            engine, self._attachment, own, confirmed, self._silence.when_known
        )
        if mirrors is not None:
            mirrors.join(partial(self._outward_lines.way_of, copies=False), self._interest.mirror_changed)
        if mediation is not None:
            self.mediate(mediation)

        self.connected = False
        self.broker = ""
        """The one that is attached, or was last."""
        self._writable = True
        self._doubted = False
        """Whether the broker has fallen silent for a moment."""
        self._letting_go = False

    async def run(self) -> None:
        """Stay attached to the head broker until cancelled. Who lets go of a broker has not lost it."""
        try:
            await self._attachment.run()
        except asyncio.CancelledError:
            self._letting_go = True
            raise

    # -- the broker comes and goes ------------------------------------------------------------------------

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        """Let waiting messages out, and subscribe to what the other domains want, unless standing by."""
        self.broker = broker
        self.connected, self._writable, self._doubted = True, True, False
        self._interest.attached()
        self._inward.attached()
        self._subscriptions.attached(broker)
        if self._mirrors is not None:
            self._mirrors.head_attached()
        if elsewhere:
            self._engine.head_moved(monotonic())
        self._open_queue()

    def begin(self) -> None:
        """The gateway, which stood by, carries from now on: what comes from this moment on is its own."""
        self._forget_lines()
        self._subscriptions.begin()

    def other_at(self, broker: str) -> None:
        """The gateway that carries, while this one stands by, is attached to a broker of this name."""
        self._subscriptions.other_at(broker)

    def doubted(self, doubted: bool) -> None:
        """Hold what comes in while the broker may be about to be lost."""
        self._doubted = doubted
        if not doubted:
            self._open_queue()
            return
        self._queue.shut()
        if self._mirrors is not None:
            self._mirrors.head_doubted()

    def lost(self, reason: str) -> None:
        """Hold what comes in until the broker is back."""
        self.connected = False
        self._interest.lost()
        self._subscriptions.lost()
        self._queue.shut()
        if not self._letting_go:
            self._engine.head_lost(monotonic())
            if self._mirrors is not None:
                self._mirrors.head_lost()

    def writable(self, writable: bool) -> None:
        """The broker can take more, or for now cannot."""
        self._writable = writable
        self._subscriptions.writable(writable)
        if writable:
            self._open_queue()
        else:
            self._queue.shut()

    def _open_queue(self) -> None:
        """Let messages through, unless the broker is back but its edges and clients are not yet.

        A broker that has just restarted would throw away what comes before its subscribers have returned.
        """
        if self.connected and self._writable and self._engine.head_settled and not self._doubted:
            self._queue.open()
            self._markers.release()

    def serve(self) -> None:
        """The subscribers of a broker that was away are back, or given up."""
        self._interest.tell_of_mirrors()
        self._forget_lines()
        self._open_queue()
        self._inward.offer_again()
        if not self.connected:
            self._inward.give_up()

    # -- what the broker tells ----------------------------------------------------------------------------

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        """A subscription came or went somewhere in this domain."""
        self._interest.change(subject, group, wanted)

    def _regroup(self, subject: str) -> None:
        self._regrouped[subject] = None

    def buffer_done(self) -> None:
        """One buffer from the broker is sorted: send it on."""
        if self._regrouped:
            regrouped = tuple(self._regrouped)
            self._regrouped.clear()
            self.forget_routes(regrouped)
            self._inward_tables.forget_some(regrouped, self._ledger.delivered)
            self._inward.offer_again()
        self.sorter.book_requests(self._ledger.sent)
        self._buffer_done()

    def ignored(self, what: str) -> None:
        """Something from the broker was left out."""
        self._interest.ignored(what)

    def undelivered(self, reason: str, count: int, topic: str = "") -> None:
        """The broker could not hand messages to all whom they were for."""
        if topic and not subject_problem(topic, wildcards=False):
            self._ledger.drop(topic, reason, count)
        else:
            self._ledger.drop_unnamed(reason, count)

    # -- what the probe and the publishers of the domain need to know -------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the broker is there, and its subscribers."""
        return self.connected and self._engine.head_settled

    @property
    def subscribers_unknown(self) -> str:
        """Why this gateway may not know everything that the domain's subscribers want; empty if it does."""
        return self._interest.problem if self.connected else "the head broker is away"

    @property
    def onlookers(self) -> bool:
        """Whether somebody in the domain would see markers."""
        return self._markers.onlookers

    def send_marker(self, payload: bytes) -> None:
        """Hand a marker to the broker, behind all that waits for it."""
        self._markers.send(payload)

    def ping(self, done: Callable[[], None]) -> None:
        """Call `done` when the broker has answered all that was sent so far."""
        self._attachment.confirm(done)

    # -- what the other domains want, and what holds ------------------------------------------------------

    def change_subscriptions(self, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        """Follow what the other domains want."""
        self._silence.wanted(add)
        self._subscriptions.change(add, remove)
        if self._mirrors is not None:
            self._mirrors.change_subscriptions(add, remove)

    @property
    def follows(self) -> bool:
        """Whether the broker has taken all that was asked of it."""
        return self._subscriptions.taken

    def confirm(self, applied: Applied) -> None:
        """Have the broker confirm that it has taken the subscriptions so far."""
        self._subscriptions.confirm(applied)

    def contracts_changed(self, directions: bytes) -> None:
        """Other contracts hold: what lines mean is learnt anew, and clients are told what holds now."""
        self._questions.directions = directions
        federation = self._engine.federation
        self.departures.contracts_changed(federation.limits.client)
        self.arrivals.terms_changed(federation.congestion)
        if self._mirrors is not None:
            self._mirrors.contracts_changed()
        self._forget_lines()
        self._inward_tables.renew(self._engine.border)
        if self._mediation is not None:
            self._mediation.contracts_changed()

    async def before_names_change(self) -> None:
        """Learn what only names of the domain's own need to be known."""
        await self._attachment.learn_members()

    def names_changed(self, directions: bytes) -> None:
        """The domain calls things otherwise from the next buffer on; clients are told contracts by that."""
        self._questions.directions = directions
        self._forget_lines()
        self._attachment.translate_anew()

    def mediate(self, mediation: Mediation) -> None:
        """Messages may be transformed from now on."""
        self._mediation = self._outward_lines.mediation = self._inward.mediation = mediation
        mediation.join(
            self._inward.deliver_transformed, self._ways_out.send_transformed, self._engine.queue_groups
        )

    def forget_routes(self, subjects: tuple[str, ...]) -> None:
        """Other domains want these subjects than did before."""
        self.sorter.forget_some(self._names.at_broker(subjects), self._ledger.sent)
        if self._mirrors is not None:
            self._mirrors.forget_routes(subjects)

    def _limits_changed(self, subjects: tuple[str, ...]) -> None:
        """Other subjects than before are limited on their way in."""
        self._inward_tables.forget_some(subjects, self._ledger.delivered)

    def _forget_lines(self) -> None:
        """What lines mean has changed: book their counts and learn them anew."""
        if self._mirrors is not None:
            self._mirrors.forget_lines()
        self.sorter.forget(self._ledger.sent)
        self._inward_tables.forget(self._ledger.delivered)

    def book(self) -> None:
        """Bring the ledger up to date."""
        self.sorter.book(self._ledger.sent)
        self._inward_tables.book(self._ledger.delivered)
