"""The second way of mirrored topics through a domain: past its head, by each edge broker.

Outward: what the domain's publishers say at a mirror broker is taken here, as it is at the head; whichever
copy of a message comes first leaves the domain. Inward: what arrives for a mirrored topic goes to the head as
ever, and to every edge whose own subscribers want the second copy. Where a contract says `standby`, second
copies are made only while somebody misses the first: then the last messages are said again there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import monotonic

from mangrove.broker.attachment import Attachment, AttachmentOwner
from mangrove.gateway.access.origin_tables import OriginTables
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.line_table import LineTable
from mangrove.gateway.mirroring.edge_attachment import EdgeAttachment
from mangrove.gateway.mirroring.recent_ids import RecentIds
from mangrove.gateway.mirroring.spoken import LastSpoken
from mangrove.gateway.mirroring.unrepeated import Unrepeated, may_have_id
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_LEASE_S, MIRROR_PREFIX
from mangrove.model.status import MirrorFigures
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import Contract, Mirror, overlaps
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.bodies import (
    DISCARD,
    Entry,
    FanOut,
    Flow,
    Gathered,
    Message,
    Rewrite,
    WireError,
    parse_message_line,
    skip_of,
)

log = logging.getLogger(__name__)

SUBSCRIBED_PER_TURN = 2000
UNSENT_S = 4.0
"""How long a take-over may last without loss of mirrored messages; ids are known everywhere for a second more
(`recent_ids.GENERATION_S`), so that what was sent before does not come twice."""
MALFORMED = "malformed body"
UNREADABLE = "request for second copies that cannot be read"
Attach = Callable[[AttachmentOwner], Attachment]


class MirrorPlane:
    """Owns the attachments to the edges, and tells copies of messages apart."""

    def __init__(
        self,
        engine: OverlayEngine,
        edges: Mapping[str, Attach],
        ledger: Ledger,
        *,
        max_message_bytes: int,
        buffer_done: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._rules = engine.rules
        self.contracts_changed()
        self._ledger = ledger
        self._max_message_bytes = max_message_bytes
        self._buffer_done = buffer_done
        self._head_away = False
        self.departing = RecentIds()
        self.arriving = RecentIds()
        self._spoken = LastSpoken()
        self._unsent = LastSpoken(UNSENT_S)
        """What a gateway that stands by would have sent; the one that carries most likely has."""
        self._passing = Gathered()
        """What of the body at hand goes to the head."""
        self._arriving_lines = OriginTables(engine.border, self._arrival, self._forget_arrivals)
        self._outbound: Callable[[bytes], Entry] = _nowhere
        self._wanted_changed: Callable[[str], None] = _untold
        self.edges = [
            EdgeAttachment(name, attach, self, self._sorter) for name, attach in sorted(edges.items())
        ]

    def contracts_changed(self) -> None:
        """Other contracts hold; which topics have second ways stays the same."""
        self._mirrored = [contract for contract in self._rules.contracts if contract.mirror]
        self._standby = [each for each in self._mirrored if each.mirror is Mirror.STANDBY]

    def join(self, outbound: Callable[[bytes], Entry], wanted: Callable[[str], None]) -> None:
        """`outbound` says what a line means that the head broker would send.

        `wanted` is told when a subject, or pattern, begins or ceases to be wanted at edges.
        """
        self._outbound = outbound
        self._wanted_changed = wanted

    async def run(self) -> None:
        """Stay attached to all edges until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for edge in self.edges:
                tasks.create_task(edge.run(), name=f"mirror at {edge.name}")
            tasks.create_task(self._keep_asking(), name="asking for what is missed")

    def begin(self) -> None:
        """The gateway, which stood by, carries from now on; what the one before had not sent is not lost.

        Nobody knows how much that is, so all that came lately is sent, and said again: of what arrives twice,
        one copy is left out by its id.
        """
        self.forget_lines()
        self._unsent.forget(monotonic())  # ids of older ones may be forgotten elsewhere
        runs = [messages for _, messages in self._unsent.runs()]
        self._unsent = LastSpoken(UNSENT_S)
        for messages in runs if self.edges else ():
            self.edges[0].sorter.take(messages)
        self._buffer_done()
        self.head_doubted()

    def mirrored(self, subject: str) -> bool:
        """Whether a literal subject has second copies."""
        return bool(self._rules.contract_of(subject).mirror)

    # -- the head broker comes and goes ---------------------------------------------------------------------

    def head_doubted(self) -> None:
        """What went by the head lately may be lost: it is said again, and asked for."""
        if self._engine.standing_by:
            return
        now = monotonic()
        for edge in self.edges if self._standby else ():
            edge.double(now)
            self._say_again(edge, ">")
        for contract in self._standby:
            if any(overlaps(contract.match, each) for each in self._engine.wanted_elsewhere()):
                for edge in self.edges:
                    edge.ask_again(contract.match)

    def head_lost(self) -> None:
        """The head is gone until `head_attached`."""
        self._head_away = True
        self.head_doubted()

    def head_attached(self) -> None:
        """There is a head again."""
        self._head_away = False

    async def _keep_asking(self) -> None:
        while True:
            await asyncio.sleep(MIRROR_LEASE_S / 2)
            self._spoken.forget(monotonic())
            if self._head_away:
                self.head_doubted()

    # -- what other domains want ----------------------------------------------------------------------------

    def change_subscriptions(self, add: Iterable[str], remove: Iterable[str]) -> None:
        """Follow what the other domains want, at every edge that is there."""
        added, removed = list(self._of_mirrored(add)), list(self._of_mirrored(remove))
        for edge in self.edges:
            if edge.connected and (added or removed):
                edge.subscribe(added)
                edge.unsubscribe(removed)

    def _of_mirrored(self, subjects: Iterable[str]) -> Iterable[str]:
        return filter(self.concerns, subjects)

    def concerns(self, pattern: str) -> bool:
        """Whether some subject under a pattern may have second copies."""
        return any(overlaps(contract.match, pattern) for contract in self._mirrored)

    def edge_attached(self, edge: EdgeAttachment) -> None:
        """Subscribe to what other domains want, a slice at a time."""
        if self._standby:
            edge.hear_requests()
        self._subscribe_some(edge, deque(self._engine.wanted_elsewhere()))

    def _subscribe_some(self, edge: EdgeAttachment, left: deque[str]) -> None:
        if not edge.connected:
            return
        some = [left.popleft() for _ in range(min(SUBSCRIBED_PER_TURN, len(left)))]
        edge.subscribe(self._of_mirrored(filter(self._engine.is_wanted_elsewhere, some)))
        if left:
            asyncio.get_running_loop().call_soon(self._subscribe_some, edge, left)

    def forget_routes(self, subjects: tuple[str, ...]) -> None:
        """Other domains want these subjects than did before."""
        copies = tuple(f"{MIRROR_PREFIX}{subject}" for subject in subjects)
        for edge in self.edges:
            edge.sorter.forget_some(copies, self._ledger.sent)

    def forget_lines(self) -> None:
        """What lines mean has changed."""
        for edge in self.edges:
            edge.sorter.forget(self._ledger.sent)
        self._forget_arrivals()

    # -- outward --------------------------------------------------------------------------------------------

    def departure(self, line: bytes, message: Message, subject: str, entry: Entry) -> Entry:
        """What a line of a mirrored topic means that alone would mean `entry`: once of each message."""
        flow, passed = entry.flow, None
        if flow is None or flow is DISCARD:
            return entry
        if entry.booked:
            passed = self._request_passed if entry.once else partial(self._passed, subject)
        new_line = message.line(subject, message.reply)
        if new_line != line:
            flow = Rewrite(line, new_line, message.skip, flow)
        unrepeated = Unrepeated(line, message, (subject, ()), self.departing, flow, passed=passed)
        return Entry(message.skip, unrepeated, once=entry.once, booked=False)

    def _passed(self, subject: str, count: int) -> None:
        self._ledger.sent.add(subject, count)

    def _request_passed(self, count: int) -> None:
        self._ledger.sent.requests += count

    def _sorter(self, edge: EdgeAttachment) -> LineTable:
        return LineTable(partial(self._copy, edge), lambda: edge.sorter.forget(self._ledger.sent))

    def _copy(self, edge: EdgeAttachment, line: bytes) -> Entry:
        """Where a second copy from a publisher of this domain goes. What is wrong with it the head books."""
        try:
            message = parse_message_line(line)
        except WireError:
            return Entry(skip_of(line), DISCARD)
        subject = message.subject.removeprefix(MIRROR_PREFIX)
        if message.subject == MIRROR_AGAIN:
            return Entry(message.skip, _Requests(self, edge, line, message), once=True, booked=False)
        if is_internal(subject) or message.size_bytes > self._max_message_bytes or message.groups:
            return Entry(message.skip, DISCARD)
        if not (self.mirrored(subject) and may_have_id(message)):
            return Entry(message.skip, DISCARD)
        if self._engine.standing_by:
            return Entry(message.skip, _Unsent(self._unsent))
        entry = self._outbound(message.line(subject, message.reply))
        return self.departure(line, message, subject, entry)

    def edge_done(self) -> None:
        """Send on what a buffer of copies brought."""
        self._buffer_done()

    # -- inward ---------------------------------------------------------------------------------------------

    def arrived(self, body: bytes, topic_class: int, origin: str = "") -> bytes:
        """What of a frame's body goes to the head; the copies have gone to the edges that want them.

        Bodies of topics that are not mirrored are not looked into.
        """
        if not self._rules.contract_at(topic_class).mirror:
            return body
        self._passing.messages.clear()
        try:
            self._arriving_lines.take(origin, body)
        except WireError as error:
            log.error("refused the rest of a frame from another domain: %s", error)
            self._ledger.refuse_body(MALFORMED)
        return b"".join(self._passing.messages)

    def _arrival(self, origin: str, line: bytes) -> Entry:
        message = parse_message_line(line)
        contract = self._rules.contract_of(message.subject)
        border = self._engine.border
        if origin and border is not None and not border.entering(origin, message.subject):
            return Entry(message.skip, self._passing)  # where it is refused and booked
        if not contract.mirror or not may_have_id(message):
            return Entry(message.skip, self._passing)
        copies = self._copies(line, message, contract)
        kind = (message.subject, message.groups)
        flow = Unrepeated(
            line, message, kind, self.arriving, self._passing, copies=copies, own=self.departing
        )
        return Entry(message.skip, flow, once=bool(message.reply), booked=False)

    def _copies(self, line: bytes, message: Message, contract: Contract) -> Flow | None:
        """Where the second copies of messages with this line go."""
        edges = [edge for edge in self.edges if edge.wants(message.subject)]
        if not edges:
            return None
        copy_line = message.line(f"{MIRROR_PREFIX}{message.subject}", message.reply)
        copy = parse_message_line(copy_line)
        standby = contract.mirror is Mirror.STANDBY
        outlets: list[Flow] = [_Copies(edge, copy_line, copy, standby=standby) for edge in edges]
        if standby:
            outlets.append(_Kept(self._spoken, message.subject))
        return Rewrite(line, copy_line, message.skip, FanOut(outlets))

    def wants(self, subject: str) -> bool:
        """Whether some edge wants copies of exactly this subject or pattern."""
        return any(edge.wants_exactly(subject) for edge in self.edges)

    def wanted(self) -> set[str]:
        """All subjects and patterns of which edges want copies."""
        return {subject for edge in self.edges for subject in edge.wanted()}

    def edge_wants(self, subjects: Iterable[str]) -> None:
        """Copies go elsewhere than before."""
        for subject in subjects:
            self._wanted_changed(subject)
        self._arriving_lines.forget_some(tuple(subjects), self._ledger.delivered)

    def _forget_arrivals(self) -> None:
        self._arriving_lines.forget(self._ledger.delivered)

    def figures(self) -> MirrorFigures:
        """For the gateway's account of itself."""
        return MirrorFigures(
            edges={edge.name: edge.connected for edge in self.edges},
            repeated_departing=self.departing.repeated,
            repeated_arriving=self.arriving.repeated,
            copies=sum(edge.written for edge in self.edges),
            left_out=sum(edge.left_out for edge in self.edges),
        )

    # -- what is missed -------------------------------------------------------------------------------------

    def asked_again(self, edge: EdgeAttachment, asked: bytes) -> None:
        """A subscriber at an edge misses what it subscribes to."""
        try:
            pattern = asked.decode()
        except UnicodeDecodeError:
            pattern = ""
        if subject_problem(pattern, wildcards=True):
            self._ledger.ignore(UNREADABLE)
            return
        edge.double(monotonic())
        self._say_again(edge, pattern)

    def _say_again(self, edge: EdgeAttachment, pattern: str) -> None:
        self._spoken.forget(monotonic())
        for subject, messages in self._spoken.runs():
            if overlaps(pattern, subject) and edge.wants(subject):
                line = messages[: messages.index(b"\r\n")]
                edge.copy(line, parse_message_line(line), messages)


class _Copies:
    """The flow of copies to one edge; on standby, only while somebody misses the first copies."""

    __slots__ = ("_edge", "_line", "_message", "_standby")

    def __init__(self, edge: EdgeAttachment, line: bytes, message: Message, *, standby: bool) -> None:
        self._edge = edge
        self._line = line
        self._message = message
        self._standby = standby

    def take(self, messages: bytes) -> None:
        if not self._standby or monotonic() < self._edge.doubled_until:
            self._edge.copy(self._line, self._message, messages)


class _Unsent:
    """The flow of copies that a gateway takes which stands by."""

    __slots__ = ("_kept",)

    def __init__(self, kept: LastSpoken) -> None:
        self._kept = kept

    def take(self, messages: bytes) -> None:
        self._kept.keep("", messages, monotonic())


class _Kept:
    """The flow of copies that are kept to be said again."""

    __slots__ = ("_spoken", "_subject")

    def __init__(self, spoken: LastSpoken, subject: str) -> None:
        self._spoken = spoken
        self._subject = subject

    def take(self, messages: bytes) -> None:
        self._spoken.keep(self._subject, messages, monotonic())


class _Requests:
    """The flow of requests of subscribers who miss something."""

    __slots__ = ("_edge", "_length", "_payload", "_plane")

    def __init__(self, plane: MirrorPlane, edge: EdgeAttachment, line: bytes, message: Message) -> None:
        self._plane = plane
        self._edge = edge
        self._length = len(line) + message.skip
        self._payload = len(line) + 2 + max(message.header_bytes, 0)

    def take(self, messages: bytes) -> None:
        for start in range(0, len(messages), self._length):
            self._plane.asked_again(self._edge, messages[start + self._payload : start + self._length - 2])


def _untold(subject: str) -> None:
    """Before anybody listens."""


def _nowhere(line: bytes) -> Entry:
    return Entry(parse_message_line(line).skip, DISCARD)
