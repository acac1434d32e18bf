"""What goes back with an earlier version: links and figures do, members do not.

Who has joined since then runs, and who has left may not be there any more: that is decided by those who run
these sites (`join`, `leave`, `expel`). So between domains that were members then and are now, all is as it
was; what leads to others is as it is. Who has left and joined again has another number, and is another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import msgspec

from mangrove.model.federation import Federation, RiskGroup
from mangrove.model.versions.document import FederationDocument, same_network
from mangrove.model.versions.network import AgreedSite, Network, members, network_of


def network_then(then: FederationDocument, now: FederationDocument, running: Federation) -> Network | None:
    """The domains and links of an earlier version; None if it has those of a first file that is not known.

    `running` is what a site was started with: its file, or the domains and links of the version that was in
    force, if that had any. Only the latter numbers its domains.
    """
    if then.network is not None:
        return then.network
    is_file = not running.numbers and same_network(then, running)
    return network_of(running) if is_file or now.network is None else None


def still_there(then: Sequence[str], now: Sequence[str]) -> frozenset[str]:
    """Who was a member by one order of domains and is by a later one: a number is given once."""
    return frozenset(members(old for old, new in zip(then, now, strict=False) if old == new))


def gone_back(present: Network, then: Network, same: Collection[str]) -> Network:
    """The domains of today; those that are the `same` with the links and figures of an earlier version."""
    then = then.without(*(name for name in then.names if name not in same))
    old = {site.name: site for site in then.sites}
    links = [each for each in present.links if not old.keys() >= set(each.between)] + list(then.links)
    network = msgspec.structs.replace(
        present,
        sites=tuple(_figures_of(site, old.get(site.name, site)) for site in present.sites),
        links=tuple(sorted(links, key=lambda each: each.link().pair)),
        prepare=then.prepare,
    )
    return msgspec.structs.replace(network, risk_groups=dict(_groups(network, present, then)))


def membership_since(present: Network, then: Network, same: Collection[str]) -> tuple[str, ...]:
    """Who has joined or left since then, in sentences."""
    before, now = set(then.names), set(present.names)
    return (
        *(f"{name} has joined since, and stays" for name in sorted(now.difference(same))),
        *(f"{name} has left since, and is not brought back" for name in sorted(before - now)),
    )


def _figures_of(site: AgreedSite, then: AgreedSite) -> AgreedSite:
    """Its processes have the rest."""
    return msgspec.structs.replace(site, location=then.location, failure_probability=then.failure_probability)


def _groups(network: Network, present: Network, then: Network) -> Iterator[tuple[str, RiskGroup]]:
    """Those of then; those of today that concern who has joined since; all without what is not there."""
    strangers = set(present.names) - set(then.names)
    of_strangers = {
        name: group
        for name, group in present.risk_groups.items()
        if not strangers.isdisjoint(chain(group.sites, *group.links))
    }
    for name, group in sorted({**then.risk_groups, **of_strangers}.items()):
        links = tuple(pair for pair in group.links if pair in network.pairs)
        sites = tuple(site for site in group.sites if site in network.names)
        if links or sites:
            yield name, RiskGroup(links=links, sites=sites)
