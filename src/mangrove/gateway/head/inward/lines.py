"""What lines of messages from other domains mean: to whom here they go, or why they may not enter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mangrove.broker.attachment import Attachment
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.access.refused_flow import MayNotEnter
from mangrove.gateway.head.inward.absent import ForAbsent
from mangrove.gateway.head.inward.queue import FROM_HERE
from mangrove.gateway.head.refused_flows import Refused
from mangrove.gateway.head.replies import Replies
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.limits.arrivals import ArrivalLimits
from mangrove.gateway.mediation.manner import AS_IT_IS, Manner
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.selecting.selecting_subscribers import SelectingSubscribers
from mangrove.model.selectors.group_names import selector_in
from mangrove.model.subjects import DEAD_LETTER_PREFIX, LETTER_SUBJECT, is_internal, is_machinery
from mangrove.model.topics import Scope
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.bodies import (
    DISCARD,
    MAX_GROUPS,
    Entry,
    FanOut,
    Flow,
    Rewrite,
    WireError,
    parse_message_line,
)

MACHINERY = "a subject of the machinery, from another domain"
NO_WAY_BACK = "its answers would lead astray: a reply subject that no gateway wrote"
STAYS_HOME = "from another domain, on a topic that stays in its domain"
NAMELESS = "from another domain, by a name that means something else here"


class LetterBox(Protocol):
    """Who takes what other gateways say to this one."""

    def take_from(self, origin: str, messages: bytes) -> None:
        """Letters came in a frame of a domain."""


class InwardLines:
    """Judges a line that came from an origin: once, for all messages with it, until something changes."""

    def __init__(
        self,
        engine: OverlayEngine,
        ledger: Ledger,
        border_book: BorderBook,
        attachment: Attachment,
        replies: Replies,
        arrivals: ArrivalLimits,
        selecting: SelectingSubscribers,
        *,
        absent: ForAbsent,
        departed: Flow,
        letters: LetterBox | None,
        names: SiteNames,
    ) -> None:
        """`absent` takes what waits for its subscribers, `departed` what is for groups that have left."""
        self._engine = engine
        self._border_book = border_book
        self._attachment = attachment
        self._replies = replies
        self._arrivals = arrivals
        self._selecting = selecting
        self._absent = absent
        self._departed = departed
        self._letters: Flow = DISCARD if letters is None else _Letters(self._arriving_from, letters)
        self._names = names
        self._machinery = Refused(ledger, MACHINERY)
        self._no_way_back = Refused(ledger, NO_WAY_BACK)
        self._stays_home = Refused(ledger, STAYS_HOME)
        self._nameless = Refused(ledger, NAMELESS)

    def _arriving_from(self) -> str:
        """The domain whose frame is being handed over."""
        return self._absent.origin

    def judge(self, origin: str, line: bytes, manner: Manner = AS_IT_IS) -> Entry:
        """Where a message from another domain goes; one that is to be transformed, before it is."""
        way = manner.way
        message = parse_message_line(line)
        if message.subject.startswith("$"):
            raise WireError(f"the subject {message.subject!r} belongs to the broker itself")
        if message.subject == LETTER_SUBJECT:
            return Entry(message.skip, self._letters)
        if is_machinery(message.subject):
            return Entry(message.skip, self._machinery, once=True, booked=False)
        if message.reply and not self._replies.lead_back(message.reply):
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
        if self._names.entering(message) is None:
            return Entry(message.skip, self._nameless)
        groups = self._names.served(message.subject, groups)
        missing: tuple[str, ...] = ()
        named = [group for group in message.groups if selector_in(group) is None]
        if named or not manner.each:
            missing = tuple(group for group in named if group not in groups)
            groups = tuple(group for group in named if group in groups)
        groups += self._selecting.named(message.subject)
        once = bool(message.reply) or is_internal(message.subject)
        if not once and self._engine.awaited(message.subject):
            return Entry(message.skip, self._absent)
        booked = True
        if way is not None and way.concerns(message.subject):
            # Named, so that it is known behind the transform whom they are for.
            entering = msgspec.structs.replace(message, groups=groups[:MAX_GROUPS])
            outlet: Flow = way.flow(line, entering, self._arriving_from)
            booked = False
        else:
            outlet = self._attachment.outlet(line, message, groups)
            if self._arrivals and (limited := self._arrivals.outlet(line, message, outlet, request=once)):
                outlet, booked = limited, False
        if missing:
            new_line = message.line(message.subject, message.reply, missing)
            elsewhere = Rewrite(line, new_line, message.skip, self._departed)
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
