"""All that views are made of: one look at a federation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from mangrove.model.federation import Federation
from mangrove.model.site_pair import SitePair
from mangrove.model.status import NO_CONTRACT, DomainStatus, FederationStatus, GatewayStatus
from mangrove.model.topic_counts import TopicTotals
from mangrove.model.topics import BEST_EFFORT, TopicRules
from mangrove.monitor.view.load import LinkLoad


class Messages(NamedTuple):
    """Counts of messages, of a topic or of all that a contract governs."""

    sent: int = 0
    delivered: int = 0
    dropped: int = 0


class Sight:
    """A status with its federation file, what is known of rates, and when it was seen."""

    def __init__(
        self,
        federation: Federation,
        status: FederationStatus,
        *,
        at: float,
        silent: Mapping[str, str] | None = None,
        loads: Mapping[SitePair, LinkLoad] | None = None,
        sent_s: Mapping[str, Mapping[str, float]] | None = None,
        delivered_s: Mapping[str, Mapping[str, float]] | None = None,
        totals: Mapping[str, TopicTotals] | None = None,
        names: ContractNames | None = None,
    ) -> None:
        """`silent`: domains that are not heard, and why. Rates are by domain and literal topic; `totals` are
        what each domain's gateway has counted since it started.

        `names` of the federation's topics, if they are at hand: what was found once need not be searched.
        """
        self.federation = federation
        self.status = status
        self.at = at
        self.silent = dict(silent or {})
        self.loads = dict(loads or {})
        self.sent_s = sent_s or {}
        self.delivered_s = delivered_s or {}
        self.totals = totals or {}
        self.names = names or ContractNames(federation.topics)

    @cached_property
    def domains(self) -> dict[str, DomainStatus]:
        """By name."""
        return {domain.domain: domain for domain in self.status.domains}

    @cached_property
    def gateways(self) -> dict[str, GatewayStatus | None]:
        """Of all domains of the file."""
        found = {name: self.domains.get(name) for name in self.federation.domains}
        return {name: None if each is None else each.gateway for name, each in found.items()}

    @cached_property
    def contract_rates(self) -> dict[str, tuple[float, float]]:
        """Messages sent and delivered in a second, by the contract's topics."""
        of = self.names.of
        sent, delivered = (_summed(each.values(), of) for each in (self.sent_s, self.delivered_s))
        return {name: (sent.get(name, 0.0), delivered.get(name, 0.0)) for name in {**sent, **delivered}}

    @cached_property
    def contract_totals(self) -> dict[str, Messages]:
        """Messages sent, delivered and dropped since the gateways started, by the contract's topics."""
        sent, delivered, dropped = (
            _summed((getattr(each, name).topics for each in self.totals.values()), self.names.of)
            for name in ("sent", "delivered", "dropped")
        )
        return {
            name: Messages(*(int(each.get(name, 0)) for each in (sent, delivered, dropped)))
            for name in {**sent, **delivered, **dropped}
        }


def _summed(rates: Iterable[Mapping[str, float]], of: Callable[[str], str]) -> dict[str, float]:
    """What the topics of each contract come to."""
    found: dict[str, float] = defaultdict(float)
    for by_topic in rates:
        for topic, rate in by_topic.items():
            found[of(topic)] += rate
    return found


MAX_REMEMBERED = 50_000


class ContractNames:
    """Which contract governs a topic. Contracts of one literal topic are found without a search."""

    def __init__(self, rules: TopicRules) -> None:
        self._patterns = TopicRules(
            tuple(each for each in rules.contracts if {"*", ">"} & set(each.match.split(".")))
        )
        self._places = {each.match: place for place, each in reversed(list(enumerate(rules.contracts)))}

        self._found: dict[str, str] = {}

    def named(self, match: str) -> str:
        """The name of a contract that a gateway told: what it serves without one bears the widest pattern."""
        return NO_CONTRACT if match == BEST_EFFORT.match and match not in self._places else match

    def of(self, topic: str) -> str:
        """The topics of its contract, as the file has them; `NO_CONTRACT` if none governs it."""
        found = self._found.get(topic)
        if found is None:
            if len(self._found) >= MAX_REMEMBERED:
                self._found.clear()
            found = self._found[topic] = self._searched(topic)
        return found

    def _searched(self, topic: str) -> str:
        place = self._patterns.index_of(topic)
        pattern = (
            self._patterns.contracts[place].match if place < len(self._patterns.contracts) else NO_CONTRACT
        )
        literal = self._places.get(topic)
        if literal is not None and (pattern == NO_CONTRACT or literal < self._places[pattern]):
            return topic
        return pattern
