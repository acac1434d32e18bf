"""The gateway's side towards its own brokers: where messages go, and what is booked.

Outward: messages that other domains want are sorted into the engine's flows, a buffer at a time. Inward: the
bodies of frames are checked and handed to the head broker as they came; of the queue groups that a message
names, those are served that have members here, and for the others it is sent on. Interest of the domain's
subscribers arrives by itself. How all this is said to a broker is a matter of its kind
(`mangrove.broker.attachment`); here everything is in the format of a frame's body.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Protocol

import msgspec

from mangrove.broker.attachment import Attachment, AttachmentOwner
from mangrove.gateway.absent import ForAbsent
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.access.refused_flow import MayNotEnter, MayNotLeave
from mangrove.gateway.head_queue import HeadQueue
from mangrove.gateway.head_subscriptions import Applied, HeadSubscriptions
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.limits.arrivals import ArrivalLimits
from mangrove.gateway.limits.departures import DepartureLimits
from mangrove.gateway.line_table import LineTable
from mangrove.gateway.mediation.manner import AS_IT_IS, EACH, Manner
from mangrove.gateway.mediation.mediation import Mediation
from mangrove.gateway.mediation.way_tables import WayTables
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.selecting.selected_flow import SelectedFlow, SelectedWay
from mangrove.gateway.selecting.selecting_subscribers import SelectingSubscribers
from mangrove.gateway.special_flows import Answered, Question, Refused, Unreadable
from mangrove.model.access.evaluation import Decision
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT
from mangrove.model.selectors.group_names import selector_in
from mangrove.model.subjects import (
    DEAD_LETTER_PREFIX,
    LETTER_SUBJECT,
    READY_QUESTION,
    REPLY_PREFIX,
    WAY_BACK_PREFIX,
    covers,
    egress_marker_subject,
    group_problem,
    ingress_marker_subject,
    is_internal,
    is_machinery,
    subject_problem,
)
from mangrove.model.topics import Queue, Scope
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.flows import HOP_LIMIT, Route
from mangrove.overlay.forwarding.retargeting import jobs_apart, retarget_body
from mangrove.overlay.protocol.bodies import (
    DISCARD,
    MAX_GROUPS,
    Entry,
    FanOut,
    Flow,
    Gathered,
    Message,
    Rewrite,
    WireError,
    parse_message_line,
    readable,
    scan,
)

log = logging.getLogger(__name__)

QUEUE_FULL = "queue to the head broker full"
NOT_BACK = "too much waits for subscribers that went with their broker"
MALFORMED = "malformed body"
NO_MEMBER = "no member of the queue group is left"
TOO_MANY_GROUPS = f"more than {MAX_GROUPS} queue groups in one domain want it"
ODD_GROUP = "queue group whose name cannot be told to other domains"
MAX_WAITING_MARKERS = 64
NO_INBOX = "a reply to a subject that nobody may answer to"
MACHINERY = "a subject of the machinery, from another domain"
NO_WAY_BACK = "its answers would lead astray: a reply subject that no gateway wrote"
STAYS_HOME = "from another domain, on a topic that stays in its domain"
NAMELESS = "from another domain, by a name that means something else here"
INBOXES = ("_INBOX.", WAY_BACK_PREFIX)
FROM_HERE = ""
"""The origin of messages of this domain that come back to it: they pass no border."""


class Silence(Protocol):
    """Who must hear of interest, because publishers may be silent for the lack of it."""

    def wanted(self, subjects: Iterable[str]) -> None:
        """Somebody wants subjects or patterns."""

    def when_known(self, done: Callable[[], None]) -> None:
        """Call `done` when every publisher knows of all that was wanted so far: at once, most often."""


class LetterBox(Protocol):
    """Who takes what other gateways say to this one."""

    def take_from(self, origin: str, messages: bytes) -> None:
        """Letters came in a frame of a domain."""


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
        refuse is entered in the `border_book`. With `names`, the domain calls things otherwise than the
        federation does; here all is in the federation's names, but for lines that come from the broker.
        Without `mediation`, no message is transformed.
        """
        self._mediation = mediation
        self._names = names
        self._mirrors = mirrors
        if mirrors is not None:
            mirrors.join(partial(self._way_of, copies=False), self._mirror_wanted)
        self._at_head: set[str] = set()
        """Of what may be wanted at mirrors, what is wanted at the head."""
        self._engine = engine
        self._border_book = border_book or BorderBook()
        self._ledger = ledger
        self._max_message_bytes = max_message_bytes
        self._buffer_done = buffer_done
        self._regrouped: dict[str, None] = {}
        """Subjects whose queue groups changed while the present buffer was read."""
        self.selecting = SelectingSubscribers(engine.domain)
        self._letters: Flow = DISCARD if letters is None else _Letters(self._arriving_from, letters)
        self._markers = markers
        self._directions = directions
        self._silence = silence
        self._attached = 0
        """How often the broker was there."""
        self._all_told = False
        """Whether the broker has told all subscriptions that it had when it was attached."""
        self._strangers = False
        """Whether somebody subscribes in a way that cannot be understood here."""
        self._marker_in = ingress_marker_subject(engine.domain)
        self._marker_out = egress_marker_subject(engine.domain)
        self._onlookers: set[tuple[str, str]] = set()
        """Subscriptions in this domain under which markers fall."""
        self._waiting_markers: deque[bytes] = deque(maxlen=MAX_WAITING_MARKERS)
        self._too_large = Refused(ledger, f"larger than the federation's limit of {max_message_bytes} bytes")
        self._no_inbox = Refused(ledger, NO_INBOX)
        self._machinery = Refused(ledger, MACHINERY)
        self._no_way_back = Refused(ledger, NO_WAY_BACK)
        self._stays_home = Refused(ledger, STAYS_HOME)
        self._nameless = Refused(ledger, NAMELESS)
        self._too_many_groups = Refused(ledger, TOO_MANY_GROUPS)
        self._departed: list[bytes] = []
        """Messages for queue groups that have no member here any more."""
        federation = engine.federation
        self.departures = DepartureLimits(engine.rules, federation.limits.client, ledger, self._forget_lines)
        self.arrivals = ArrivalLimits(engine.rules, federation.congestion, ledger, self._limits_changed)
        self.sorter = LineTable(self._outbound, self._forget_lines)
        self._inbound_lines = WayTables(engine.border, self._inbound, self._forget_lines)
        if mediation is not None:
            self.mediate(mediation)
        self._queue = HeadQueue(queue_bytes, self._hand_over, lambda body: ledger.drop_body(body, QUEUE_FULL))
        self._for_absent = ForAbsent(queue_bytes, lambda body: ledger.drop_body(body, NOT_BACK))
        self._attachment = attach(self) if names is None else names.attach(attach, self)
        self._subscriptions = HeadSubscriptions(engine, self._attachment, confirmed, self._when_known)
        self.connected = False
        self.broker = ""
        """The one that is attached, or was last."""
        self._other_at = ""
        """Where the gateway is attached that carries while this one stands by, as far as is known."""
        self._listening = False
        """Whether this one, standing by, is subscribed like that."""
        self._writable = True
        self._doubted = False
        """Whether the broker has fallen silent for a moment."""
        self._letting_go = False
        self._given_up = False
        """Whether the broker was there, is away, and its subscribers are not expected any more."""

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
        self._attached += 1
        self._all_told = self._strangers = False
        self._attachment.after_interest(partial(self._told_all, self._attached))
        self._given_up = False
        self._listening = False
        if self._engine.standing_by:
            self._listen()
        else:
            self._subscribe()
        if self._mirrors is not None:
            self._mirrors.head_attached()
        if elsewhere:
            self._engine.head_moved(monotonic())
        self._open_queue()

    def begin(self) -> None:
        """The gateway, which stood by, carries from now on: what comes from this moment on is its own."""
        self._forget_lines()
        if self._listening:
            self._subscriptions.begin()
        elif self.connected:
            self._subscribe()

    def other_at(self, broker: str) -> None:
        """The gateway that carries, while this one stands by, is attached to a broker of this name.

        At the same one, what it carries is asked for here too, and thrown away: so when it dies, nothing is
        lost until this one is heard. At different ones, what it delivers would come here as if published.
        """
        self._other_at = broker
        if self._engine.standing_by and self.connected:
            self._listen()

    def _listen(self) -> None:
        listening = self._other_at == self.broker != ""
        if listening and not self._listening:
            self._subscribe()
        elif self._listening and not listening:
            self._subscriptions.end(self._own_subjects())
        self._listening = listening

    def _subscribe(self) -> None:
        self._subscriptions.attached(self._own_subjects())

    def _own_subjects(self) -> list[str]:
        return [f"{REPLY_PREFIX}>"] if self._markers is None else [f"{REPLY_PREFIX}>", self._marker_in]

    def _told_all(self, attached: int) -> None:
        self._all_told = attached == self._attached

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
        self.connected = self._listening = False
        self._onlookers.clear()
        self._at_head.clear()
        self.selecting.lost()
        self._waiting_markers.clear()
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
            self._release_markers()

    # -- interest -----------------------------------------------------------------------------------------

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        """A subscription came or went somewhere in this domain."""
        if is_internal(subject):
            return
        if subject[0] in "*>" and covers(subject, self._marker_out):
            change = self._onlookers.add if wanted else self._onlookers.discard
            change((subject, group))
        if wanted and self._silence is not None:
            self._silence.wanted((subject,))
        if wanted and self._for_absent:
            self._regrouped[subject] = None
        if group and group_problem(group):
            if wanted:
                self.ignored(ODD_GROUP)
            return
        told = self.selecting.change(subject, group, wanted) if group else None
        if told is not None:
            self._regrouped[subject] = None
            if not told.changed:
                return
            group, wanted = told.group, told.wanted
        if self._mirrors is not None and not group:
            wanted = self._wanted_anywhere(self._mirrors, subject, wanted)
        if self._engine.change_local_interest(subject, group, wanted):
            # A group with a member at home is served at home, so lines in both directions change.
            self._regrouped[subject] = None

    def _wanted_anywhere(self, mirrors: MirrorPlane, subject: str, at_head: bool) -> bool:
        """Whoever holds on to the second copies wants messages to come, though the first ones find nobody."""
        change = self._at_head.add if at_head and mirrors.concerns(subject) else self._at_head.discard
        change(subject)
        return at_head or mirrors.wants(subject)

    def _mirror_wanted(self, subject: str) -> None:
        """Some edge begins or ceases to want second copies."""
        if self._mirrors is not None and not is_internal(subject):
            wanted = self._mirrors.wants(subject) or subject in self._at_head
            self._engine.change_local_interest(subject, "", wanted)

    # -- markers ------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the broker is there, and its subscribers."""
        return self.connected and self._engine.head_settled

    @property
    def subscribers_unknown(self) -> str:
        """Why this gateway may not know everything that the domain's subscribers want; empty if it does."""
        if not self.connected:
            return "the head broker is away"
        if not (self._all_told and self._engine.head_settled):
            return "the head broker has not told all subscriptions yet"
        return "somebody subscribes in a way that cannot be understood" if self._strangers else ""

    @property
    def onlookers(self) -> bool:
        """Whether somebody in the domain would see markers."""
        return bool(self._onlookers)

    def send_marker(self, payload: bytes) -> None:
        """Hand a marker to the broker, behind all that waits for it."""
        self._waiting_markers.append(payload)
        self._release_markers()

    def _release_markers(self) -> None:
        while self._waiting_markers and self._queue.flows:
            payload = self._waiting_markers.popleft()
            message = Message(self._marker_out, "", -1, len(payload))
            line = message.line(message.subject, "")
            self._attachment.outlet(line, message, ()).take(b"%b\r\n%b\r\n" % (line, payload))

    def ping(self, done: Callable[[], None]) -> None:
        """Call `done` when the broker has answered all that was sent so far."""
        self._attachment.confirm(done)

    def ignored(self, what: str) -> None:
        """Something from the broker was left out."""
        self._strangers = True
        self._ledger.ignore(what)

    def undelivered(self, reason: str, count: int, topic: str = "") -> None:
        """The broker could not hand messages to all whom they were for."""
        if topic and not subject_problem(topic, wildcards=False):
            self._ledger.drop(topic, reason, count)
        else:
            self._ledger.drop_unnamed(reason, count)

    def serve(self) -> None:
        """The subscribers of a broker that was away are back, or given up."""
        for subject in self._mirrors.wanted() if self._mirrors is not None else ():
            self._mirror_wanted(subject)
        self._forget_lines()
        self._open_queue()
        self._offer_again()
        if not self.connected:
            self._given_up = True
            for waiting in self._queue.take_out():
                self._enqueue(*waiting)

    def _offer_again(self) -> None:
        """What waits for absent subscribers goes out as far as they are back."""
        for waiting in self._for_absent.take_out():
            self._queue.send(*waiting)

    def change_subscriptions(self, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        """Follow what the other domains want."""
        if self._silence is not None:
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

    def _when_known(self, done: Callable[[], None]) -> None:
        if self._silence is None:
            done()
        else:
            self._silence.when_known(done)

    def contracts_changed(self, directions: bytes) -> None:
        """Other contracts hold: what lines mean is learnt anew, and clients are told what holds now."""
        self._directions = directions
        federation = self._engine.federation
        self.departures.contracts_changed(federation.limits.client)
        self.arrivals.terms_changed(federation.congestion)
        if self._mirrors is not None:
            self._mirrors.contracts_changed()
        self._forget_lines()
        self._inbound_lines.renew(self._engine.border)
        if self._mediation is not None:
            self._mediation.contracts_changed()

    def mediate(self, mediation: Mediation) -> None:
        """Messages may be transformed from now on."""
        self._mediation = mediation
        mediation.join(self._deliver_mediated, self._send_mediated, self._engine.queue_groups)

    def forget_routes(self, subjects: tuple[str, ...]) -> None:
        """Other domains want these subjects than did before."""
        at_broker = subjects if self._names is None else self._names.at_broker(subjects)
        self.sorter.forget_some(at_broker, self._ledger.sent)
        if self._mirrors is not None:
            self._mirrors.forget_routes(subjects)

    def _limits_changed(self, subjects: tuple[str, ...]) -> None:
        """Other subjects than before are limited on their way in."""
        self._inbound_lines.forget_some(subjects, self._ledger.delivered)

    def _forget_lines(self) -> None:
        """What lines mean has changed: book their counts and learn them anew."""
        if self._mirrors is not None:
            self._mirrors.forget_lines()
        self.sorter.forget(self._ledger.sent)
        self._inbound_lines.forget(self._ledger.delivered)

    def book(self) -> None:
        """Bring the ledger up to date."""
        self.sorter.book(self._ledger.sent)
        self._inbound_lines.book(self._ledger.delivered)

    # -- outward ------------------------------------------------------------------------------------------

    def buffer_done(self) -> None:
        """One buffer from the broker is sorted: send it on."""
        if self._regrouped:
            regrouped = tuple(self._regrouped)
            self._regrouped.clear()
            self.forget_routes(regrouped)
            self._inbound_lines.forget_some(regrouped, self._ledger.delivered)
            self._offer_again()
        self.sorter.book_requests(self._ledger.sent)
        self._buffer_done()

    def _outbound(self, line: bytes) -> Entry:
        """Where a message from this domain's clients goes: nowhere, while another gateway carries."""
        if self._engine.standing_by:
            return Entry(parse_message_line(readable(line)).skip, DISCARD)
        return self._way_of(line, copies=self._mirrors is not None)

    def _way_of(self, line: bytes, *, copies: bool) -> Entry:
        """Where it goes; with `copies`, of mirrored topics only what came by no other way before."""
        try:
            message = parse_message_line(line)
        except WireError:
            # One client's odd subject must not cost the whole domain its connection.
            if readable(line) == line:
                raise
            skip = parse_message_line(readable(line)).skip
            return Entry(skip, Unreadable(self._ledger, len(line) + skip))
        if message.groups:
            raise WireError(f"the broker names queue groups that were never asked for: {line[:80]!r}")
        if self._names is not None:
            renamed = self._names.leaving(message)
            if renamed is None:  # what it is called there is something else's name
                return Entry(message.skip, DISCARD)
            message = renamed
        subject, reply = message.subject, message.reply
        if message.size_bytes > self._max_message_bytes:
            return Entry(message.skip, self._too_large)
        if subject == self._marker_in and self._markers is not None:
            return Entry(message.skip, self._markers)
        if subject == DIRECTIONS_SUBJECT and self._directions and reply.startswith(INBOXES):
            answer = Answered(self._attachment, reply, self._directions)
            return Entry(message.skip, answer, once=True, booked=False)
        if subject.startswith(REPLY_PREFIX):
            domain, _, subject = subject[len(REPLY_PREFIX) :].partition(".")
            if subject == READY_QUESTION and domain == self._engine.domain and reply.startswith(INBOXES):
                question = Question(self._attachment, reply, self._when_known)
                return Entry(message.skip, question, once=True, booked=False)
            if not subject or is_machinery(subject) or not self._answerable(subject):
                # The other side would refuse it, and with it what follows in the same frame.
                return Entry(message.skip, self._no_inbox)
            flow = self._engine.route_reply(domain)
            routes: tuple[Route, ...] = () if flow is None else (Route(flow, ()),)
            refused: tuple[tuple[str, Decision], ...] = ()
        else:
            routes = self._engine.route(subject)
            refused = self._engine.refused(subject)
        if not (routes or refused):
            return Entry(message.skip, DISCARD)
        if reply.startswith(REPLY_PREFIX) and not self._leads_back(reply):
            return Entry(message.skip, self._no_inbox, once=True)
        if reply and not reply.startswith(REPLY_PREFIX):
            reply = f"{REPLY_PREFIX}{self._engine.domain}.{reply}"
        way = None
        if self._mediation is not None and routes and subject is message.subject:
            way = self._mediation.way_out(subject)
        if way is not None:
            leaving = msgspec.structs.replace(message, subject=subject, reply=reply)
            flows: list[Flow] = [way.flow(line, leaving, lambda: FROM_HERE)]
        else:
            flows = [self._way_out(line, message, subject, reply, routes)] if routes else []
        selected = way is None and any(route.selectors for route in routes)
        if refused:
            flows.append(MayNotLeave(self._border_book, line, message, subject, refused))
        flow_out = flows[0] if len(flows) == 1 else FanOut(flows)
        if subject is not message.subject:
            return Entry(message.skip, flow_out, once=True)
        if routes:
            entry = self.departures.entry(
                line, message, flow_out, request=bool(reply), booked_behind=selected
            )
        else:
            entry = Entry(message.skip, flow_out, once=bool(reply), booked=False)
        if copies and self._mirrors is not None and self._mirrors.mirrored(subject):
            return self._mirrors.departure(line, message, subject, entry)
        return entry

    def _leads_back(self, reply: str) -> bool:
        """Whether a reply subject leads to a domain, so that what answers it is judged at the border."""
        domain, _, inbox = reply[len(REPLY_PREFIX) :].partition(".")
        return reply.startswith(REPLY_PREFIX) and bool(inbox) and domain in self._engine.federation.domains

    def _answerable(self, subject: str) -> bool:
        """Whether an answer may lead to a subject in another domain.

        Where there are rules, to inboxes alone: whoever answers would else publish in the name of its own
        domain, and under its own rights, wherever the one who asks wants.
        """
        return self._engine.border is None or is_internal(subject)

    def _way_out(
        self,
        line: bytes,
        message: Message,
        subject: str,
        reply: str,
        routes: tuple[Route, ...],
        *,
        booked: bool = False,
    ) -> Flow:
        """The flows of some routes as one, each with the line that it needs. Most often there is only one.

        Where somebody selects, messages are booked here, unless they were `booked` before.
        """
        flows: list[Flow] = []
        ways: list[SelectedWay] = []
        for flow, groups, selectors in routes:
            if len(groups) > MAX_GROUPS:
                groups = groups[:MAX_GROUPS]
                flows.append(self._too_many_groups)
                ways.append(SelectedWay(self._too_many_groups, (), 0))
            new_line = message.line(subject, reply, groups)
            flows.append(flow if new_line == line else Rewrite(line, new_line, message.skip, flow))
            ways.append(SelectedWay(flows[-1], selectors, flow.destinations.bit_count()))
        if any(way.selectors for way in ways):
            book = partial(self._book_selected, subject, request=bool(reply), booked=booked)
            return SelectedFlow(line, message, ways, book)
        return flows[0] if len(flows) == 1 else FanOut(flows)

    def _book_selected(self, subject: str, sent: int, kept_back: int, *, request: bool, booked: bool) -> None:
        if request and not booked:
            self._ledger.sent.requests += sent
        elif sent and not booked:
            self._ledger.sent.add(subject, sent)
        if kept_back:
            self._ledger.keep_back(subject, kept_back)

    # -- inward -------------------------------------------------------------------------------------------

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
        way = None if self._mediation is None else self._mediation.way_in(topic_class)
        if way is None:
            return EACH if each else AS_IT_IS
        return Manner(way, each)

    def _enqueue(self, body: bytes, hop_limit: int, origin: str, manner: Manner) -> None:
        if self._given_up:
            body, jobs = jobs_apart(body)
            if jobs:
                self.retarget(jobs, self._engine.own_bit, hop_limit, origin)
        if body:
            self._queue.send(body, hop_limit, origin, manner)

    def _deliver_mediated(self, body: bytes, origin: str) -> None:
        """What was transformed comes in like all else, but goes nowhere else: there it would be again."""
        self._enqueue(body, 1, origin, AS_IT_IS)

    def _send_mediated(self, body: bytes) -> None:
        """What was transformed leaves by the routes that there are now: it was judged, and booked, before."""
        known: dict[bytes, Entry] = {}

        def resolve(line: bytes) -> Entry:
            message = parse_message_line(line)
            routes = self._engine.route(message.subject)
            flow: Flow = DISCARD
            if routes:
                flow = self._way_out(line, message, message.subject, message.reply, routes, booked=True)
            entry = known[line] = Entry(message.skip, flow)
            return entry

        scan(body, known, resolve)
        self._buffer_done()

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
            self._queue.send(b"".join(home.messages), hop_limit - 1, FROM_HERE if own else origin)
        self._buffer_done()
        return True

    def _hand_over(self, body: bytes, hop_limit: int, origin: str, manner: Manner = AS_IT_IS) -> None:
        absent = self._for_absent
        absent.hop_limit, absent.origin, absent.manner = hop_limit, origin, manner
        lines = self._inbound_lines.of(manner)
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

    def _arriving_from(self) -> str:
        """The domain whose frame is being handed over."""
        return self._for_absent.origin

    def _inbound(self, origin: str, line: bytes, manner: Manner = AS_IT_IS) -> Entry:
        """Where a message from another domain goes; one that is to be transformed, before it is."""
        way = manner.way
        message = parse_message_line(line)
        if message.subject.startswith("$"):
            raise WireError(f"the subject {message.subject!r} belongs to the broker itself")
        if message.subject == LETTER_SUBJECT:
            return Entry(message.skip, self._letters)
        if is_machinery(message.subject):
            return Entry(message.skip, self._machinery, once=True, booked=False)
        if message.reply and not self._leads_back(message.reply):
            return Entry(message.skip, self._no_way_back, once=True, booked=False)
        died_here = origin == FROM_HERE and message.subject.startswith(DEAD_LETTER_PREFIX)
        if not died_here and self._engine.rules.contract_of(message.subject).scope is Scope.DOMAIN:
            return Entry(message.skip, self._stays_home)
        crosses = origin != FROM_HERE and not is_internal(message.subject)
        if self._engine.border is not None and crosses:
            decision = self._engine.border.entering(origin, message.subject)
            if not decision:
                refused = MayNotEnter(self._border_book, line, message, decision, self._arriving_from)
                return Entry(message.skip, refused, once=bool(message.reply), booked=False)
        groups = self._engine.queue_groups(message.subject)
        if self._names is not None:
            if self._names.entering(message) is None:
                return Entry(message.skip, self._nameless)
            groups = self._names.served(message.subject, groups)
        missing: tuple[str, ...] = ()
        named = [group for group in message.groups if selector_in(group) is None]
        if named or not manner.each:
            missing = tuple(group for group in named if group not in groups)
            groups = tuple(group for group in named if group in groups)
        groups += self.selecting.named(message.subject)
        once = bool(message.reply) or is_internal(message.subject)
        if not once and self._engine.awaited(message.subject):
            return Entry(message.skip, self._for_absent)
        booked = True
        if way is not None and way.concerns(message.subject):
            # Named, so that it is known behind the transform whom they are for.
            entering = msgspec.structs.replace(message, groups=groups[:MAX_GROUPS])
            outlet: Flow = way.flow(line, entering, self._arriving_from)
            booked = False
        else:
            outlet = self._attachment.outlet(line, message, groups)
            if self.arrivals and (limited := self.arrivals.outlet(line, message, outlet, request=once)):
                outlet, booked = limited, False
        if missing:
            new_line = message.line(message.subject, message.reply, missing)
            elsewhere = Rewrite(line, new_line, message.skip, Gathered(self._departed))
            outlet = FanOut((outlet, elsewhere))
        if once:
            return Entry(message.skip, outlet, once=True, booked=booked)
        return Entry(message.skip, outlet, message.subject if booked else "")


class _Letters:
    """The flow of letters: who they are from is not for them to say."""

    def __init__(self, origin: Callable[[], str], box: LetterBox) -> None:
        self._origin = origin
        self._box = box

    def take(self, messages: bytes) -> None:
        self._box.take_from(self._origin(), messages)
