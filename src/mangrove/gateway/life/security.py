"""What keys change in a gateway: by what it judges others, and what it seals and opens."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.sealing.sealed_traffic import SealedTraffic
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.model.federation import Federation
from mangrove.model.status import SealingFigures
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.trust.trust import KeyTrust

if TYPE_CHECKING:
    from mangrove.gateway.sealing.domain_sealing import DomainSealing


class Security:
    """The keys of one life. Without any, nobody is judged and nothing is sealed."""

    def __init__(self, federation: Federation, domain: str, keys: KeysInForce | None) -> None:
        self._federation = federation
        self._domain = domain
        self._keys = keys
        self._sealing = None if keys is None else self._make_sealing(keys)

    def _make_sealing(self, keys: KeysInForce) -> DomainSealing:
        """Who seals and opens what is confidential.

        It is there before any topic is confidential, since that may change from one frame to the next.
        """
        from mangrove.gateway.sealing.domain_sealing import DomainSealing

        return DomainSealing(self._federation, self._domain, keys.ring)

    def trust(self) -> KeyTrust | None:
        """What the engine signs with and judges by; None without keys."""
        if self._keys is None:
            return None
        ring = self._keys.ring
        verifier = self._sealing or ring
        return KeyTrust(self._federation.name, ring, verifier, time_ns)

    def renewed_trust(self) -> KeyTrust | None:
        """The same, where other keys are in force; what is sealed is sealed with those from now on."""
        if self._keys is not None and self._sealing is not None:
            self._sealing.take(self._keys.ring)
        return self.trust()

    def traffic(self, engine: OverlayEngine, ledger: Ledger) -> SealedTraffic:
        """What is done with bodies that may be sealed, with keys or without."""
        if self._sealing is None:
            return SealedTraffic(engine, ledger)
        engine.seal_with(self._sealing.sealer)
        return SealedTraffic(engine, ledger, self._sealing.opener)

    def adopt(self, federation: Federation) -> None:
        """Other domains are members."""
        if self._sealing is not None:
            self._sealing.adopt(federation)

    def figures(self, traffic: SealedTraffic) -> SealingFigures:
        """What was sealed and opened, and for whom it could not be."""
        if self._sealing is None:
            return traffic.figures()
        return traffic.figures(self._sealing.sealer.sealed, self._sealing.without_key)
