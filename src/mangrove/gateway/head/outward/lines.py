"""What lines of the domain's clients mean: to which domains their messages go, or why they do not."""

from __future__ import annotations

import msgspec

from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.access.refused_flow import MayNotLeave
from mangrove.gateway.head.inward.queue import FROM_HERE
from mangrove.gateway.head.outward.questions import Questions
from mangrove.gateway.head.outward.ways_out import WaysOut
from mangrove.gateway.head.refused_flows import Refused, Unreadable
from mangrove.gateway.head.replies import Replies
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.limits.departures import DepartureLimits
from mangrove.gateway.mediation.mediation import Mediation
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.model.access.evaluation import Decision
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT
from mangrove.model.subjects import (
    READY_QUESTION,
    REPLY_PREFIX,
    ingress_marker_subject,
    is_machinery,
)
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.flows import Route
from mangrove.overlay.protocol.bodies import (
    DISCARD,
    Entry,
    FanOut,
    Flow,
    WireError,
    parse_message_line,
    skip_of,
)

NO_INBOX = "a reply to a subject that nobody may answer to"


class OutwardLines:
    """Judges a line that the broker sends: once, for all messages with it, until something changes."""

    def __init__(
        self,
        engine: OverlayEngine,
        ledger: Ledger,
        border_book: BorderBook,
        ways_out: WaysOut,
        replies: Replies,
        questions: Questions,
        departures: DepartureLimits,
        *,
        max_message_bytes: int,
        markers: Flow | None,
        mirrors: MirrorPlane | None,
        names: SiteNames,
    ) -> None:
        """`markers` takes what the site's probe publishes."""
        self._engine = engine
        self._ledger = ledger
        self._border_book = border_book
        self._ways_out = ways_out
        self._replies = replies
        self._questions = questions
        self._departures = departures
        self._max_message_bytes = max_message_bytes
        self._markers = markers
        self._marker_in = ingress_marker_subject(engine.domain)
        self._mirrors = mirrors
        self._names = names
        self.mediation: Mediation | None = None
        """What transforms messages, as soon as some are to be."""
        self._too_large = Refused(ledger, f"larger than the federation's limit of {max_message_bytes} bytes")
        self._no_inbox = Refused(ledger, NO_INBOX)

    def judge(self, line: bytes) -> Entry:
        """Where a message from this domain's clients goes: nowhere, while another gateway carries."""
        if self._engine.standing_by:
            return Entry(skip_of(line), DISCARD)
        return self.way_of(line, copies=self._mirrors is not None)

    def way_of(self, line: bytes, *, copies: bool) -> Entry:
        """Where it goes; with `copies`, of mirrored topics only what came by no other way before."""
        try:
            message = parse_message_line(line)
        except WireError:
            # One client's odd message must not cost the whole domain its connection.
            skip = skip_of(line)
            return Entry(skip, Unreadable(self._ledger, line, len(line) + skip))
        if message.groups:
            raise WireError(f"the broker names queue groups that were never asked for: {line[:80]!r}")
        renamed = self._names.leaving(message)
        if renamed is None:  # what it is called there is something else's name
            return Entry(message.skip, DISCARD)
        message = renamed
        subject, reply = message.subject, message.reply
        if message.size_bytes > self._max_message_bytes:
            return Entry(message.skip, self._too_large)
        if subject == self._marker_in and self._markers is not None:
            return Entry(message.skip, self._markers)
        if subject == DIRECTIONS_SUBJECT:
            answered = self._questions.for_directions(message)
            if answered is not None:
                return answered
        if subject.startswith(REPLY_PREFIX):
            domain, _, subject = subject[len(REPLY_PREFIX) :].partition(".")
            if subject == READY_QUESTION and domain == self._engine.domain:
                answered = self._questions.for_readiness(message)
                if answered is not None:
                    return answered
            if not subject or is_machinery(subject) or not self._replies.may_lead_to(subject):
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
        if reply.startswith(REPLY_PREFIX) and not self._replies.lead_back(reply):
            return Entry(message.skip, self._no_inbox, once=True)
        if reply and not reply.startswith(REPLY_PREFIX):
            reply = f"{REPLY_PREFIX}{self._engine.domain}.{reply}"
        way = None
        if self.mediation is not None and routes and subject is message.subject:
            way = self.mediation.way_out(subject)
        if way is not None:
            leaving = msgspec.structs.replace(message, subject=subject, reply=reply)
            flows: list[Flow] = [way.flow(line, leaving, lambda: FROM_HERE)]
        else:
            flows = [self._ways_out.flow(line, message, subject, reply, routes)] if routes else []
        selected = way is None and any(route.selectors for route in routes)
        if refused:
            flows.append(MayNotLeave(self._border_book, line, message, subject, refused))
        flow_out = flows[0] if len(flows) == 1 else FanOut(flows)
        if subject is not message.subject:
            return Entry(message.skip, flow_out, once=True)
        if routes:
            entry = self._departures.entry(
                line, message, flow_out, request=bool(reply), booked_behind=selected
            )
        else:
            entry = Entry(message.skip, flow_out, once=bool(reply), booked=False)
        if copies and self._mirrors is not None and self._mirrors.mirrored(subject):
            return self._mirrors.departure(line, message, subject, entry)
        return entry
