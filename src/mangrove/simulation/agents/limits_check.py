"""Promises of congestion control, checked on a schedule whose brokers lose capacity for a while."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.control.sessions.states import SessionState
from mangrove.model.agents.usefulness import LIMITS_VALID_S
from mangrove.model.topics import Contract
from mangrove.simulation.agents.schedule import Schedule
from mangrove.simulation.agents.virtual.brokers import VirtualBroker
from mangrove.simulation.agents.virtual.domain import VirtualDomain
from mangrove.simulation.agents.virtual.federation import VirtualFederation

RELIEVED_S = 8.0
"""After a cut, or whatever else has changed, brokers are below the threshold within this time."""
DISTURBED_S = 12.0
"""So long after a fault nothing is promised of loads."""
LOSS_RATIO = 0.1
"""With more losses than that on the management network, orders take their time."""
LIFTED_S = 20.0
"""When all that is offered has fitted for so long, nobody is limited any more."""
RENEWED_S = 15.0
"""A limit that was not said again for so long is nobody's any more."""
NEAR = 0.04
"""Of a capacity: demands are known no better than that."""


class LimitsCheck:
    """Looks at limits and loads second by second, and at what is left when all has healed."""

    def __init__(
        self, schedule: Schedule, virtual: VirtualFederation, problem: Callable[[str], None]
    ) -> None:
        self._schedule = schedule
        self._virtual = virtual
        self._problem = problem
        self._balancing = schedule.federation.balancing
        self._no_room_at: dict[str, float] = {}
        """When a broker of a domain could last not have carried all that is offered."""
        self.limited = 0
        """Seconds in which somebody was limited, over all domains."""
        self.relieved = 0
        """Looks at a broker that was cut and must be below the threshold."""

    def look(self, domain: VirtualDomain) -> None:
        """At every second."""
        for client in self._virtual.clients.values():
            limited = client.limits.get(domain.name)
            for topic in limited.rates if limited is not None else ():
                if self._protected(topic):
                    self._problem(f"{client.name} is limited on {topic}, which is protected")
        if domain.brain is None:
            return
        now = self._virtual.world.now
        status = domain.brain.status(now)
        self.limited += bool(status.congestion.limited)
        if self._lacks_room(domain):
            self._no_room_at[domain.name] = now
        moving = any(session.state == SessionState.MIGRATING.value for session in status.sessions)
        if moving or not self._quiet(domain, now):
            return
        for cut in self._schedule.cuts:
            if cut.domain == domain.name and cut.start_s + RELIEVED_S <= now < cut.end_s:
                self._look_at(self._virtual.traffic.brokers[cut.broker])

    def _quiet(self, domain: VirtualDomain, now: float) -> bool:
        """Whether nothing but time is needed for brokers to be relieved."""
        schedule = self._schedule
        return (
            schedule.loss_ratio <= LOSS_RATIO
            and not schedule.late_ratio
            and now >= domain.led_since + DISTURBED_S
            and now >= self._virtual.traffic.offered_at + RELIEVED_S
            and not any(fault.start_s <= now < fault.end_s + DISTURBED_S for fault in schedule.faults)
        )

    def _look_at(self, broker: VirtualBroker) -> None:
        if not broker.reachable or broker.utilisation_of(self._least(broker)) >= self._balancing.low - NEAR:
            return
        self.relieved += 1
        if broker.utilisation >= self._balancing.high:
            self._problem(f"{broker.name} is at {broker.utilisation:.1%} although publishers can be limited")

    def _least(self, broker: VirtualBroker) -> dict[str, float]:
        """What is said at least, whatever is limited: of protected topics, and of those from elsewhere."""
        traffic = self._virtual.traffic
        probe = self._schedule.federation.congestion.probe_msg_s
        return {
            topic: min(offered, probe) if self._may_be_limited(topic, broker.domain) else offered
            for topic, offered in traffic.offered.items()
        }

    def _may_be_limited(self, topic: str, domain: str) -> bool:
        traffic = self._virtual.traffic
        publisher = self._virtual.clients.get(traffic.publishers[topic])
        here = traffic.published_in[topic] == domain
        return here and publisher is not None and publisher.alive and not self._protected(topic)

    def look_at_the_end(self, domain: VirtualDomain) -> None:
        """When all has healed, and all that is offered fits: nobody is limited, or thinks it is."""
        if domain.brain is None:
            return
        now = self._virtual.world.now
        limits = domain.brain.status(now).congestion.limits
        known = {limit.topic for limit in limits}
        for client in self._virtual.clients.values():
            limited = client.limits.get(domain.name)
            if limited is None or not client.alive or limited.until - now > LIMITS_VALID_S - RENEWED_S:
                continue
            for topic in limited.rates:
                if topic not in known:
                    self._problem(f"{client.name} is limited on {topic}, of which its agent knows nothing")
        if limits and now >= self._no_room_at.get(domain.name, 0.0) + LIFTED_S:
            self._problem(f"{sorted(known)} are limited in {domain.name} although there is room")

    def _lacks_room(self, domain: VirtualDomain) -> bool:
        traffic = self._virtual.traffic
        return any(
            broker.domain == domain.name
            and broker.utilisation_of(traffic.offered) >= self._balancing.low - NEAR
            for broker in traffic.brokers.values()
        )

    def _protected(self, topic: str) -> bool:
        contract: Contract = self._schedule.federation.topics.contract_of(topic)
        longest_ms = self._schedule.federation.congestion.protect_deadline_ms
        return (
            longest_ms is not None and contract.deadline_ms is not None and contract.deadline_ms <= longest_ms
        )
