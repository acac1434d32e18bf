"""What a gateway answers on its domain's management broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

import msgspec

from mangrove.errors import InputError
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.management.broker_connection import Answer
from mangrove.gateway.management.terms_teller import TermsTeller
from mangrove.gateway.management.voucher import Voucher
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.versions import Versions
from mangrove.model.agents.names import gateway_limits_subject
from mangrove.model.agents.speakers import ANY_USER
from mangrove.model.agents.usefulness import GatewayLimited, GatewayLimits
from mangrove.model.questions.access_question import AccessAnswer, AccessRequest, gateway_access_subject
from mangrove.model.questions.endangered import AvoidAnswer, AvoidRequest, gateway_avoid_subject
from mangrove.model.questions.interest_question import InterestAnswer, InterestRequest
from mangrove.model.questions.session_quality import AskAnswer, AskRequest
from mangrove.model.questions.terms_question import gateway_terms_subject
from mangrove.model.questions.versions_question import gateway_versions_subject
from mangrove.model.questions.vouching import gateway_attachments_subject
from mangrove.model.shared_names import (
    gateway_asks_subject,
    gateway_interest_subject,
    gateway_status_subject,
)
from mangrove.model.status import GatewayStatus
from mangrove.model.subjects import subject_problem
from mangrove.model.topic_counts import TopicCounts, TopicCountsRequest, gateway_topics_subject
from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction
from mangrove.overlay.routes.session_asks import AskRefusedError


class Answers:
    """Reads questions, asks the engine and the books, and writes answers."""

    def __init__(
        self,
        engine: OverlayEngine,
        head: HeadConnection,
        ledger: Ledger,
        *,
        started: float,
        status: Callable[[], GatewayStatus],
        carry_out: Callable[[list[Instruction]], None],
        voucher: Voucher,
        versions: Versions,
        teller: TermsTeller,
        names: SiteNames | None = None,
    ) -> None:
        """Who asks speaks of subjects by the `names` of the domain."""
        self._names = names or SiteNames()
        self._teller = teller
        self._engine = engine
        self._head = head
        self._ledger = ledger
        self._started = started
        self._status = status
        self._carry_out = carry_out
        self._voucher = voucher
        self._versions = versions

    def by_subject(self, *, users: bool = False) -> Mapping[str, Answer]:
        """What is answered on each subject; where `users` log in, clients ask on subjects of their own."""
        domain = self._engine.domain
        user = ANY_USER if users else ""
        return {
            gateway_status_subject(domain): lambda request, _: msgspec.json.encode(self._status()),
            gateway_attachments_subject(domain): lambda request, _: self._voucher.answer(request),
            gateway_topics_subject(domain): lambda request, _: msgspec.json.encode(
                self._topic_counts(request)
            ),
            gateway_asks_subject(domain, user): lambda request, who: msgspec.json.encode(
                self._ask(request, who)
            ),
            gateway_interest_subject(domain, user): lambda request, _: msgspec.json.encode(
                self._awareness(request)
            ),
            gateway_avoid_subject(domain): lambda request, _: msgspec.json.encode(self._avoid(request)),
            gateway_versions_subject(domain): lambda request, _: self._versions.answer(
                request, self._engine, self._carry_out
            ),
            gateway_terms_subject(domain, user): lambda request, _: self._teller.answer(),
            gateway_limits_subject(domain): lambda request, _: msgspec.json.encode(self._limit(request)),
            gateway_access_subject(domain, user): lambda request, _: msgspec.json.encode(
                self._access(request)
            ),
        }

    def _ask(self, request: bytes, user: str) -> AskAnswer:
        """A session asks for more than a contract; nobody ends or changes the sessions of another user."""
        try:
            asked = msgspec.json.decode(request, type=AskRequest)
            if user:
                asked = msgspec.structs.replace(asked, session=f"{user}/{asked.session}")
            self._carry_out(self._engine.ask(self._renamed(asked), monotonic()))
        except UNREADABLE as error:
            return AskAnswer(refused=f"this cannot be asked for: {error}")
        except AskRefusedError as error:
            return AskAnswer(refused=error.message, hint=error.hint)
        return AskAnswer()

    def _renamed(self, asked: AskRequest) -> AskRequest:
        if asked.end or not asked.subject:
            return asked
        found = self._names.names.called_there(asked.subject)
        if len(found) != 1:
            raise AskRefusedError(
                f"{asked.subject} has {len(found) or 'no'} names outside of {self._engine.domain}",
                hint="ask for one of them; `mangrove names explain` tells them",
            )
        return msgspec.structs.replace(asked, subject=found[0])

    def _avoid(self, request: bytes) -> AvoidAnswer:
        """An operator's word about an endangered region."""
        try:
            asked = msgspec.json.decode(request, type=AvoidRequest)
            self._carry_out(self._engine.avoid(asked, monotonic()))
        except UNREADABLE as error:
            return AvoidAnswer(problem=f"the request cannot be read: {error}")
        except InputError as error:
            return AvoidAnswer(problem=error.message, hint=error.hint)
        active = {region.name: region for region in self._engine.endangered(monotonic())}
        return AvoidAnswer(region=active.get(asked.name))

    def _access(self, request: bytes) -> AccessAnswer:
        """Where messages on a subject may not go."""
        try:
            subject = msgspec.json.decode(request, type=AccessRequest).subject
        except UNREADABLE as error:
            return AccessAnswer(problem=f"the question cannot be read: {error}")
        if problem := subject_problem(subject, wildcards=False):
            return AccessAnswer(problem=f"that is no subject: {problem}")
        there = self._names.names.leaving(subject)
        if there is None:
            return AccessAnswer(problem=f"{subject} has no name outside of {self._engine.domain}")
        return AccessAnswer(refused=self._engine.refusals(there))

    def _limit(self, request: bytes) -> GatewayLimited:
        """The agent says how much may enter the domain."""
        try:
            limits = msgspec.json.decode(request, type=GatewayLimits)
        except UNREADABLE as error:
            return GatewayLimited(epoch=-1, problem=f"the limits cannot be read: {error}")
        return self._head.arrivals.order(self._renamed_limits(limits), monotonic())

    def _awareness(self, request: bytes) -> InterestAnswer:
        """Who knows what a subscriber here wants; a request that cannot be read is about nothing."""
        try:
            asked = msgspec.json.decode(request, type=InterestRequest)
        except UNREADABLE:
            return InterestAnswer(stamp=None)
        stamp = asked.stamp
        if stamp is None or stamp[0] != self._engine.epoch:
            stamp = self._stamp(asked.subject, asked.group)
        if stamp is None:
            return InterestAnswer(stamp=None)
        return InterestAnswer(stamp=stamp, missing=self._engine.unaware(stamp))

    def _renamed_limits(self, limits: GatewayLimits) -> GatewayLimits:
        """The agent speaks the domain's names; limits hold for what enters, by the federation's."""
        if self._names.plain:
            return limits
        found = {
            there: each
            for local, each in limits.limits.items()
            for there in self._names.names.wanted_here(local)
        }
        return msgspec.structs.replace(limits, limits=found)

    def _stamp(self, subject: str, group: str) -> tuple[int, int] | None:
        """A version of the own interest that holds all that a local pattern asks for."""
        group = self._head.selecting.told_as(group)
        wanted = self._names.names.wanted_here(subject)
        stamps = [self._engine.interest_stamp(each, group) for each in wanted]
        told = [stamp for stamp in stamps if stamp is not None]
        if len(told) < len(stamps):
            return None
        return max(told) if told else (self._engine.epoch, 0)  # nothing of it ever enters

    def _topic_counts(self, request: bytes) -> TopicCounts:
        """What was counted since the reader's cursor; a request that cannot be read has none."""
        try:
            cursor = msgspec.json.decode(request, type=TopicCountsRequest).cursor
        except UNREADABLE:
            cursor = None
        self._head.book()
        return self._ledger.history.since(cursor, monotonic() - self._started)
