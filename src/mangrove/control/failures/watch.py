"""All brokers of a domain under the eyes of their detectors of failure, in leaders and followers alike.

What is found is noted as events while this agent leads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from mangrove.control.events.failure_happenings import (
    BrokerFailed,
    BrokerReported,
    BrokerReturned,
    HostFailed,
    HostReturned,
    LinkTroubled,
)
from mangrove.control.failures.credibility import OTHER_BROKER, Credibility
from mangrove.control.failures.detector import BrokerDetector
from mangrove.control.failures.states import Health
from mangrove.control.site import Site
from mangrove.model.agents.failures import BrokerHealth, FailureStatus
from mangrove.model.events.event_log import EventId, EventLog

TOGETHER_S = 2.0
"""Brokers of one host that died within this time died with it."""


class Turn(msgspec.Struct, frozen=True):
    """A broker's health has changed."""

    broker: str
    before: Health
    after: Health
    failed_since: float
    """When it had failed, if it had."""


class FailureWatch:
    """Detectors of head and edges, and what is believed of clients that report them."""

    def __init__(self, site: Site, log: EventLog) -> None:
        self._site = site
        self._log = log
        self._detectors = {broker: BrokerDetector(broker) for broker in site.brokers}
        self._credibility = Credibility()
        self._failed_by: dict[str, EventId] = {}
        self._failed_hosts: dict[str, EventId | None] = {}
        self._off: dict[str, bool] = dict.fromkeys(site.spares, False)
        """Brokers that are switched off, and whether they answer nevertheless."""
        self._verdicts = 0
        self.unknown = 0
        """Probes of brokers that are not of this domain."""

    # -- evidence -------------------------------------------------------------------------------------------

    def probed(self, broker: str, answered: bool, closed: bool, now: float, *, noting: bool) -> Turn | None:
        """A probe has come to its end."""
        detector = self._detectors.get(broker)
        if detector is None:
            self.unknown += 1
            return None
        if broker in self._off:
            self._off[broker] = answered
            return None
        before, failed_since = detector.health, detector.failed_since
        after = detector.probed(answered, closed, now)
        for client in detector.take_refuted():
            if self._credibility.was_wrong(client, broker, now) and noting:
                self._log.note(LinkTroubled(broker=broker, client=client), now)
        if after is before:
            return None
        if noting and after is Health.FAILED:
            self._note_failed(detector, now)
        if after is Health.FAILED:
            self._verdicts += 1
            self._look_at_host(broker, now, noting)
            failed_since = detector.failed_since
        elif after is Health.ALIVE and not noting:
            self._forget(broker)
        return Turn(broker, before, after, failed_since)

    def reported(self, broker: str, client: str, evidence: str, now: float) -> bool:
        """A client takes a broker for dead; whether to probe it at once."""
        detector = self._detectors.get(broker)
        if detector is None:
            self._credibility.refused[OTHER_BROKER] += 1
            return False
        if detector.health is Health.FAILED or not self._credibility.believes(client, now):
            return False
        first = not detector.reporters(now)
        detector.reported(client, now)
        if first:
            self._log.note(BrokerReported(broker=broker, client=client, evidence=evidence), now)
        return True

    def _look_at_host(self, broker: str, now: float, noting: bool) -> None:
        """Whether all brokers of its host have died together with it."""
        host = self._site.machine(broker)
        there = [each for each in self._site.brokers if self._site.machine(each) == host]
        if not host or len(there) < 2 or host in self._failed_hosts:
            return
        detectors = [self._detectors[each] for each in there]
        if all(each.health is Health.FAILED and now - each.failed_since <= TOGETHER_S for each in detectors):
            event = None
            if noting:
                event = self._log.note(
                    HostFailed(host=host, brokers=tuple(there)), now, self._failed_by.get(broker)
                )
            self._failed_hosts[host] = event

    def set_off(self, brokers: Collection[str]) -> None:
        """These, and no others, are switched off: whether they answer proves nothing."""
        for broker in brokers:
            self._detectors[broker] = BrokerDetector(broker)
        self._off = {broker: self._off.get(broker, False) for broker in brokers}

    def answers(self, broker: str) -> bool:
        """Whether a broker that is switched off answers, because it is starting or somebody started it."""
        return self._off.get(broker, False)

    # -- notes ----------------------------------------------------------------------------------------------

    def note_standing(self, known: Mapping[str, EventId], now: float) -> None:
        """A term begins: what is dead is told, unless an earlier leader has told it."""
        self._failed_by = dict(known)
        for broker in self.failed:
            if broker not in known:
                self._note_failed(self._detectors[broker], now)

    def _note_failed(self, detector: BrokerDetector, now: float) -> None:
        happening = BrokerFailed(
            broker=detector.broker, evidence=detector.evidence, reporters=detector.reporters(now)
        )
        self._failed_by[detector.broker] = self._log.note(happening, now)

    def note_returned(self, broker: str, failed_since: float, now: float, *, replaced: bool) -> None:
        """A broker can be relied on again."""
        cause = self.failed_by(broker)
        returned = BrokerReturned(broker=broker, after_s=max(0.0, now - failed_since), replaced=replaced)
        event = self._log.note(returned, now, cause)
        if host := self._forget(broker):
            self._log.note(HostReturned(host=host), now, event)

    def _forget(self, broker: str) -> str:
        """A broker lives; its host, if that was taken for gone."""
        self._failed_by.pop(broker, None)
        host = self._site.machine(broker)
        if host not in self._failed_hosts:
            return ""
        del self._failed_hosts[host]
        return host

    def failed_by(self, broker: str) -> EventId | None:
        """The event that told of a broker's death; of its host's, if that died."""
        host = self._failed_hosts.get(self._site.machine(broker))
        return host or self._failed_by.get(broker)

    # -- questions ------------------------------------------------------------------------------------------

    def health(self, broker: str) -> Health:
        """What a broker is taken for."""
        return self._detectors[broker].health

    @property
    def failed(self) -> tuple[str, ...]:
        """Brokers that are proven dead, in the order of succession."""
        return tuple(name for name, each in self._detectors.items() if each.health is Health.FAILED)

    @property
    def unreliable(self) -> frozenset[str]:
        """Brokers that are dead, or were so lately that nothing is given to them yet."""
        return frozenset(
            name for name, each in self._detectors.items() if each.health in (Health.FAILED, Health.RETURNING)
        )

    @property
    def failed_hosts(self) -> tuple[str, ...]:
        """Hosts that are gone with all their brokers."""
        return tuple(self._failed_hosts)

    def failed_since(self, broker: str) -> float:
        """When a broker failed; infinite for one that is relied on."""
        return self._detectors[broker].failed_since

    def frozen(self, broker: str) -> bool:
        """Whether a broker is dead and its process may still be there, on a host that is."""
        detector = self._detectors[broker]
        gone = self._site.machine(broker) in self._failed_hosts
        return detector.health is Health.FAILED and detector.silent and not gone

    def refused(self) -> Counter[str]:
        """Reports that were not believed, by reason."""
        return Counter(self._credibility.refused)

    def status(self, bottlenecks: Iterable[str], dropped: Iterable[str], now: float) -> FailureStatus:
        """For `mangrove load`."""
        detectors = self._detectors.values()
        return FailureStatus(
            brokers=tuple(
                BrokerHealth(
                    broker=each.broker,
                    health=each.health.value,
                    since_s=max(0.0, now - each.since) if math.isfinite(each.since) else 0.0,
                    evidence=each.evidence if each.broker in self.unreliable else "",
                    reporters=each.reporters(now),
                )
                for each in detectors
                if each.health is not Health.ALIVE
            ),
            hosts=self.failed_hosts,
            dropped=tuple(dropped),
            bottlenecks=tuple(bottlenecks),
            verdicts=self._verdicts,
            missed_probes=sum(each.missed for each in detectors),
            uncounted_probes=sum(each.uncounted for each in detectors),
            refuted_reports=self._credibility.refuted,
        )
