"""The contract that holds on the way to a domain, with what publishers here and subscribers there ask for.

All that asks about a contract in order to choose routes asks here. Others' asks come from outside, so they
are cut down to the limits of the contract again. What is always published twice, at two brokers, also leaves
by two paths that share nothing, where the federation has them (GEMOM figure 3): the second way of a message
must not end where both meet on one link.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from mangrove.model.questions.session_quality import NOTHING_MORE, Quality, Role, allowed, raised, strictest
from mangrove.model.topics import Contract, Mirror
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.routes.session_asks import SessionAsks

MIRRORED_PATHS = 2


class EffectiveContracts:
    """What is owed on the way to a domain: the contract, what is asked for here, what is asked there."""

    def __init__(self, rules: Rules, own: SessionAsks, live: LiveMap | None = None) -> None:
        """Without a map, nothing is known of paths that share nothing."""
        self._live = live
        self._rules = rules
        self._own = own
        self._heard: dict[str, dict[int, Quality]] = {}
        self._found: dict[tuple[int, str], Contract] = {}

    def at(self, topic_class: int, destination: str) -> Contract:
        """The contract of a topic class towards a destination."""
        key = (topic_class, destination)
        found = self._found.get(key)
        if found is None:
            contract = self._rules.contract_at(topic_class)
            asked = strictest(
                (
                    self._own.of(Role.PUBLISHER).get(topic_class, NOTHING_MORE),
                    self._heard.get(destination, {}).get(topic_class, NOTHING_MORE),
                )
            )
            found = raised(contract, allowed(asked, contract.limits))
            if found.paths < MIRRORED_PATHS and self._leaves_twice(found, destination):
                found = structs.replace(found, paths=MIRRORED_PATHS)
            self._found[key] = found
        return found

    def _leaves_twice(self, contract: Contract, destination: str) -> bool:
        mirrored = contract.mirror is Mirror.BOTH
        return mirrored and self._live is not None and self._live.has_two_ways(destination)

    def heard(self, asks: Mapping[str, dict[int, Quality]]) -> bool:
        """What the subscribers of other domains ask for; True if it has changed."""
        told = {domain: asked for domain, asked in asks.items() if asked}
        if told == self._heard:
            return False
        self._heard = told
        self._found.clear()
        return True

    def own_changed(self) -> None:
        """What is asked for here has changed."""
        self._found.clear()
