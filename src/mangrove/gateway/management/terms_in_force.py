"""What clients of a domain are told of the document in force, by the names of the domain."""

from __future__ import annotations

import msgspec

from mangrove.model.gateway_settings import GatewaySettings
from mangrove.model.names.local_view import local_rules
from mangrove.model.questions.terms_question import TermsTold
from mangrove.overlay.engine import OverlayEngine


class TermsInForce:
    """Read from the engine whenever somebody asks."""

    def __init__(self, settings: GatewaySettings, engine: OverlayEngine) -> None:
        self._settings = settings
        self._engine = engine

    def terms(self) -> TermsTold:
        """What clients keep."""
        federation = self._engine.federation
        return TermsTold(
            version=self._engine.document.version,
            terms=local_rules(federation, self._settings.domain).terms(),
            client_limits=federation.limits.client,
        )

    def directions(self) -> bytes:
        """What clients hear that ask for directions; empty if nobody is answered here."""
        directions = self._settings.directions
        if directions is None:
            return b""
        told = self.terms()
        return msgspec.json.encode(
            msgspec.structs.replace(directions, terms=told.terms, client_limits=told.client_limits)
        )
