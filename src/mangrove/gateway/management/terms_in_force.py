"""What clients of a domain are told of the document in force, by the names of the domain."""

from __future__ import annotations

import msgspec

from mangrove.gateway.naming.site_names import SiteNames
from mangrove.model.gateway_settings import GatewaySettings
from mangrove.model.names.local_view import rules_by
from mangrove.model.names.mapping import names_digest
from mangrove.model.questions.terms_question import TermsTold
from mangrove.overlay.engine import OverlayEngine


class TermsInForce:
    """Read from the engine whenever somebody asks."""

    def __init__(self, settings: GatewaySettings, engine: OverlayEngine, names: SiteNames) -> None:
        self._settings = settings
        self._engine = engine
        self._names = names

    def terms(self) -> TermsTold:
        """What clients keep."""
        federation = self._engine.federation
        return TermsTold(
            version=self._engine.document.version,
            names=names_digest(self._names.names.mappings),
            terms=rules_by(self._names.names, federation.topics).terms(),
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
