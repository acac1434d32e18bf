"""The side of the head broker: where messages go, what is wanted, and what waits for its subscribers."""

from __future__ import annotations

from collections.abc import Iterable

from mangrove.model.access.evaluation import Decision
from mangrove.model.questions.session_quality import AskRequest
from mangrove.model.subjects import is_internal
from mangrove.model.topics import Scope
from mangrove.overlay.events.happenings import (
    BodiesRefused,
    HeadLost,
    HeadSettled,
)
from mangrove.overlay.forwarding.flows import OutboundFlow, Route
from mangrove.overlay.forwarding.retargeting import Retargeted
from mangrove.overlay.instructions import (
    ForgetRoutes,
    Instruction,
    ResetTimer,
    ServeHead,
)
from mangrove.overlay.interest.wants import want
from mangrove.overlay.network_follower import EVERYTHING
from mangrove.overlay.protocol.control_messages import (
    SiteReport,
)
from mangrove.overlay.protocol.frames import Frame, Name
from mangrove.overlay.sealing.sealer import Sealer
from mangrove.overlay.sides.parts import EngineParts

STAYS_HOME = "it stays in its domain"


class HeadSide(EngineParts):
    """Messages and interest of the own domain."""

    def route(self, subject: str) -> tuple[Route, ...]:
        """The flows that take messages on a literal subject, with the queue groups to name.

        Valid until a ForgetRoutes names the subject, or a pattern that covers it, or until
        `change_local_interest` says so.
        """
        return self._flows.routes_of(subject, self._local.groups_for)

    def refused(self, subject: str) -> tuple[tuple[str, Decision], ...]:
        """The domains that want a literal subject and may not have it, with what forbids it."""
        return self._flows.refused(subject)

    def refusals(self, subject: str) -> dict[str, str]:
        """The domains that may not have a literal subject, whether they want it or not, and why."""
        others = [name for name in self.federation.domain_order if name != self.domain]
        if is_internal(subject) or self.rules.contract_of(subject).scope is Scope.DOMAIN:
            return dict.fromkeys(others, STAYS_HOME)
        if self.border is None:
            return {}
        decisions = {name: self.border.leaving_for(name, subject) for name in others}
        return {name: decision.reason for name, decision in decisions.items() if not decision}

    def retarget(self, subject: str, groups: tuple[str, ...], away: int, hop_limit: int) -> Retargeted:
        """Who serves queue groups of a message that the domains `away` (bits) do not serve after all."""
        if hop_limit <= 1:
            return Retargeted((), (), groups)
        here = set(self._local.groups_for(subject))
        home = tuple(group for group in groups if group in here)
        others = [group for group in groups if group not in here]
        routes, lost = self._flows.retarget(subject, others, away & ~self.own_bit, hop_limit)
        return Retargeted(home, routes, lost)

    def wait(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame of RetargetMessages that nobody else can serve waits for its destination, as others do."""
        return self._forwarder.park(frame, now)

    def turn_back(self, frame: Frame, now: float) -> list[Instruction]:
        """A frame of RetargetMessages that is sealed goes back to its origin, or waits if it cannot."""
        return self._forwarder.turn_back(frame, now)

    def seal_with(self, sealer: Sealer) -> None:
        """Have the bodies of confidential topics sealed before they leave. Told once, before all else."""
        self._forwarder.sealer = sealer

    def body_refused(self, origin: int, topic_class: int, reason: str, count: int, now: float) -> None:
        """Bodies that came from a domain were not opened; told now and then, with how many there were."""
        name = self.federation.domain_order[origin]
        topic = self.rules.contract_at(topic_class).match
        self._events.note(BodiesRefused(origin=name, topic=topic, reason=reason, count=count), now)

    def route_reply(self, domain: str) -> OutboundFlow | None:
        """The flow for replies to a requester in `domain`; None if there is no such domain elsewhere."""
        return self._flows.flow_to(domain)

    def flow(self, flow_id: int) -> OutboundFlow:
        """A flow that `route` or `route_reply` gave before."""
        return self._flows.flow(flow_id)

    def gathered(self) -> list[tuple[int, int]]:
        """What waits for the next `flush`: flow ids and bytes."""
        return self._flows.gathered()

    def wanted_elsewhere(self) -> list[str]:
        """All subjects to subscribe to at the head broker, because other domains want them."""
        return self._remote.subscribed

    def is_wanted_elsewhere(self, subject: str) -> bool:
        """Whether a subject or pattern is among them."""
        return subject in self._flows.subjects()

    def is_unwanted(self, subject: str) -> bool:
        """Whether nobody wants a literal subject: in this domain, nor in any other, reachable or not."""
        return not (self._local.wants(subject) or self._flows.wants(subject))

    def change_local_interest(self, subject: str, group: str, wanted: bool) -> bool:
        """A subscription in the own domain came or went; the empty group stands for plain subscribers.

        Passed on by the next `flush`. Returns whether the queue groups of some subject changed.
        """
        changed = self._local.change(subject, group, wanted)
        if changed:
            self._flows.choices_changed()
        return changed

    def queue_groups(self, subject: str) -> tuple[str, ...]:
        """The queue groups in this domain that want a literal subject."""
        return self._local.groups_for(subject)

    @property
    def head_settled(self) -> bool:
        """Whether messages may be written to the head broker; ServeHead tells when they may again."""
        return self._local.settled

    def head_lost(self, now: float) -> None:
        """The connection to the head broker is gone; its interest stays in force for a holdover."""
        self._settled = False
        self._local.head_lost(now)
        self._head_change = self._events.note(HeadLost(subjects=len(self._local)), now)

    def head_moved(self, now: float) -> None:
        """Another broker has taken the place of the one that was lost: whoever is back is served soon."""
        self._local.head_moved(now)

    def awaited(self, subject: str) -> bool:
        """Whether messages on a literal subject must wait, because all who want it are still away.

        Valid until `change_local_interest` or ServeHead.
        """
        return self._local.awaited(subject)

    def applied_interest(self) -> tuple[tuple[str, int, int], ...]:
        """Up to which version of each other domain's interest this gateway has acted."""
        return tuple((domain, *stamp) for domain, stamp in self._remote.applied.items())

    def subscriptions_confirmed(
        self, applied: Iterable[tuple[str, int, int]], now: float
    ) -> list[Instruction]:
        """The head broker has taken the subscriptions that ConfirmSubscriptions spoke of: tell the others."""
        self._network.confirm(applied)
        return self._network.follow(now, None)

    def site_measured(self, ingress_ms: float, egress_ms: float, now: float) -> list[Instruction]:
        """How long messages take from a publisher of this domain to here, and from here to a subscriber."""
        self._network.site = SiteReport(ingress_ms=round(ingress_ms, 1), egress_ms=round(egress_ms, 1))
        self._forwarder.ingress_us = int(1000 * ingress_ms)
        self._delivery.egress_ms = egress_ms
        return self._network.follow(now, None)

    def interest_stamp(self, subject: str, group: str) -> tuple[int, int] | None:
        """A version of the own interest that holds a want and was told; None if it was not told yet."""
        own = self._remote.interest.own
        told = want(subject, group) in own.table or self._remote.stays_home(subject)
        return own.stamp if told else None

    def unaware(self, stamp: tuple[int, int]) -> tuple[str, ...]:
        """Domains that can be reached and have not yet acted upon this version of the own interest."""
        reachable = self.federation.reachable(self.domain, self._live.failed)
        return tuple(sorted(name for name in reachable if self._link_state.applied_by(name) < stamp))

    def ask(self, request: AskRequest, now: float) -> list[Instruction]:
        """A session of the own domain asks for more than a contract, asks on, or ends its ask.

        AskRefusedError tells why not, and what is possible.
        """
        return [*self._network.asks_changed(now), ResetTimer()] if self._asks.ask(request, now) else []

    def flush(self, now: float) -> list[Instruction]:
        """Pass on what changed in the own domain, and send what the flows gathered on its way."""
        instructions = self._exchange.pass_on(now)
        instructions += self._settle(0, now)
        for flow in self._flows.touched():
            predecessors = self._flows.predecessors(flow, now)
            instructions += self._forwarder.originate(flow, predecessors, now)
        if self._flows.take_forgotten():
            instructions.append(ForgetRoutes(EVERYTHING))
        return instructions

    def remember(self, names: Iterable[Name]) -> None:
        """Frames that an earlier life of this gateway has delivered."""
        self._delivery.remember(names)

    def _settle(self, withdrawn: int, now: float) -> list[Instruction]:
        """Tell the shell, once, that the head broker's subscribers are back or were given up."""
        if self._settled or not self._local.settled:
            return []
        self._settled = True
        self._events.note(HeadSettled(withdrawn=withdrawn), now, self._head_change)
        return [ServeHead()]
