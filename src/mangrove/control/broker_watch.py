"""All brokers of a domain under the eyes of their detectors, and what is said when a state changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mangrove.control.events.happenings import (
    BrokerEased,
    BrokerFound,
    BrokerHigh,
    BrokerLost,
    BrokerOverloaded,
)
from mangrove.control.load.cluster import cluster_load
from mangrove.control.load.detector import LoadDetector
from mangrove.control.site import Site
from mangrove.model.agents.load import Amounts, BrokerLoad, BrokerSample, ClusterLoad, LoadState
from mangrove.model.events.event_log import EventId, EventLog

FRESH_S = 0.25
"""A load that was asked for so lately is answered from memory."""


class BrokerWatch:
    """Loads of head and edges. States are noted as events while this agent leads."""

    def __init__(self, site: Site, log: EventLog) -> None:
        self._site = site
        self._log = log
        self._detectors = {
            broker: LoadDetector(broker, site.role(broker), site.capacities[broker], site.balancing)
            for broker in site.brokers
        }
        self._loads: dict[str, BrokerLoad] = {}
        self._loads_at = 0.0
        self._noted: dict[str, LoadState] = {}
        self._lost: set[str] = set()
        self._quiet: set[str] = set()
        """Brokers of which somebody else tells why they do not answer: dead, or switched off."""
        self._changed_by: dict[str, EventId] = {}
        self.unknown = 0
        """Samples of brokers that are not of this domain."""

    def sampled(self, sample: BrokerSample, now: float, *, noting: bool) -> BrokerLoad | None:
        """A broker has told how it is; its load from now on."""
        detector = self._detectors.get(sample.broker)
        if detector is None:
            self.unknown += 1
            return None
        return self._noticed(detector.sample(sample, now), now, noting)

    def unreachable(self, broker: str, problem: str, now: float, *, noting: bool) -> None:
        """A broker did not answer."""
        detector = self._detectors.get(broker)
        if detector is not None:
            self._noticed(detector.unreachable(problem, now), now, noting)

    def set_capacity(self, broker: str, capacity: Amounts, now: float, *, noting: bool) -> None:
        """A broker can carry more or less from now on."""
        self._noticed(self._detectors[broker].set_capacity(capacity, now), now, noting)

    def set_dead(self, broker: str, problem: str, *, quiet: bool = False) -> None:
        """A broker is proven dead, and no candidate for anything; with an empty `problem`, no longer."""
        self._loads.pop(broker, None)
        (self._quiet.add if quiet else self._quiet.discard)(broker)
        self._detectors[broker].set_dead(problem)

    def _noticed(self, load: BrokerLoad, now: float, noting: bool) -> BrokerLoad:
        self._loads[load.broker] = load
        if noting:
            self._note(load, now)
        return load

    def _note(self, load: BrokerLoad, now: float) -> None:
        broker = load.broker
        if not load.reachable:
            if broker not in self._lost and broker not in self._quiet:
                self._lost.add(broker)
                self._log.note(BrokerLost(broker=broker, problem=load.problem), now)
            return
        if broker in self._lost:
            self._lost.discard(broker)
            self._log.note(BrokerFound(broker=broker), now)
        if load.measured is self._noted.get(broker, LoadState.LOW):
            return
        self._noted[broker] = load.measured
        shares = {metric.value: share for metric, share in load.utilisation.items()}
        cause = self._changed_by.get(broker)
        match load.measured:
            case LoadState.OVERLOAD:
                happening: BrokerOverloaded | BrokerHigh | BrokerEased = BrokerOverloaded(
                    broker=broker,
                    utilisation=shares,
                    overloaded=tuple(metric.value for metric in load.overloaded),
                    triggers=tuple(trigger.value for trigger in load.triggers),
                )
            case LoadState.HIGH:
                happening = BrokerHigh(broker=broker, utilisation=shares)
            case _:
                happening = BrokerEased(broker=broker, utilisation=shares)
        self._changed_by[broker] = self._log.note(happening, now, cause)

    def changed_by(self, broker: str) -> EventId | None:
        """The event that told of a broker's present state, if one did."""
        return self._changed_by.get(broker)

    def forget_notes(self) -> None:
        """Another term begins: states are told anew."""
        self._noted.clear()
        self._lost.clear()
        self._changed_by.clear()

    # -- sessions -------------------------------------------------------------------------------------------

    def set_busy(self, broker: str, session: str) -> bool:
        """A broker takes part in a session; False if it takes part in another."""
        self._loads.pop(broker, None)
        return self._detectors[broker].set_busy(session)

    def clear_busy(self, broker: str, session: str) -> None:
        """A session is over for a broker."""
        self._loads.pop(broker, None)
        self._detectors[broker].clear_busy(session)

    def busy(self) -> dict[str, str]:
        """Brokers that take part in sessions, and in which."""
        return {name: each.session for name, each in self._detectors.items() if each.session}

    # -- questions ------------------------------------------------------------------------------------------

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all brokers are, by name."""
        if not 0.0 <= now - self._loads_at < FRESH_S:
            self._loads.clear()
            self._loads_at = now
        for name, detector in self._detectors.items():
            if name not in self._loads:
                self._loads[name] = detector.load(now)
        return self._loads

    def cluster(self, now: float) -> ClusterLoad:
        """The domain as its neighbours learn it."""
        loads = self.loads(now)
        return cluster_load(loads[self._site.acting_head], [loads[edge] for edge in self._site.edges])

    def refused(self) -> Counter[str]:
        """Samples that were not believed, by reason."""
        total: Counter[str] = Counter()
        for detector in self._detectors.values():
            total.update(detector.refused)
        if self.unknown:
            total["broker of another domain"] += self.unknown
        return total
