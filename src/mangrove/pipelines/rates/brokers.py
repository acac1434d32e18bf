"""Brokers that a profile's items are to be allocated to, as a problem document names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mangrove.model.federation import Federation
from mangrove.model.plans.topology import hosts_of, topology_fingerprint
from mangrove.model.topics import Mirror


@dataclass(frozen=True, slots=True)
class Brokers:
    """What the items are to be allocated to: capacities in messages per second, or a model of the brokers."""

    names: tuple[str, ...]
    capacity: tuple[float, ...] | None = None
    model: Mapping[str, float] | None = None
    max_risk: float | None = None
    federation: Federation | None = None
    """Whose brokers they are, if a file says so."""
    domain: str = ""
    """Of which domain all of them are, if they are of one."""

    def fields(self) -> dict[str, object]:
        """Their part of a problem document."""
        fields: dict[str, object] = {"brokers": list(self.names)}
        if self.model is not None:
            fields["model"] = dict(self.model)
        else:
            fields["capacity"] = list(self.capacity or ())
        if self.max_risk is not None:
            fields["constraints"] = {"max_risk": self.max_risk}
        return fields

    def origin(self, topics: Mapping[str, Sequence[str]]) -> dict[str, object]:
        """What an answer must carry to be put in force: for whom it is, and what contracts ask of items."""
        fields: dict[str, object] = {"topics": {item: list(each) for item, each in topics.items()}}
        if self.federation is None:
            return fields
        rules = self.federation.topics
        modes = {item: [rules.contract_of(topic).mirror for topic in each] for item, each in topics.items()}
        fields["federation"] = self.federation.name
        fields["mirrored"] = {
            item: max(asked, key=list(Mirror).index).value for item, asked in modes.items() if any(asked)
        }
        if not self.domain:
            return fields
        hosts: dict[str, list[str]] = {}
        for broker, host in hosts_of(self.federation, self.domain).items():
            if broker in self.names:
                hosts.setdefault(host, []).append(broker)
        if all(hosts):
            fields["hosts"] = hosts
        topology = topology_fingerprint(self.federation, self.domain)
        return {**fields, "domain": self.domain, "topology": topology}
