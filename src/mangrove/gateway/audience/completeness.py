"""Whether a gateway knows all that the subscribers of its domain want: before, no publisher may be silent."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from mangrove.gateway.probing.site_probe import SiteProbe
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.gateway_settings import GatewaySettings

EDGES_SEEN_S = 2.5
"""An edge broker that has not heard the markers of so long may be cut off."""


class Completeness:
    """Judges by what the head broker tells, and by the markers of the probe."""

    def __init__(
        self, settings: GatewaySettings, probe: SiteProbe | None, unknown: Callable[[], str]
    ) -> None:
        """`unknown` says why the head broker may not have told everything; empty if it has."""
        self._settings = settings
        self._probe = probe
        self._unknown = unknown

    def seen(self) -> tuple[float, str]:
        """When the domain's brokers were last seen to hang together, and why its interest is not known."""
        now = monotonic()
        problem = self._unknown()
        if self._settings.head_kind is not BrokerKind.NATS:
            # Bindings are told of behind the moment in which they are in force.
            problem = problem or "this kind of broker tells of subscribers when it serves them already"
        if problem or not self._settings.edge_client_urls:
            return now, problem
        seen = float("-inf") if self._probe is None else self._probe.together_at
        return seen, "" if now - seen < EDGES_SEEN_S else "not every edge broker is known to be attached"
