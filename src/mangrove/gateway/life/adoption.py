"""What a gateway does when another version of the federation document is in force."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.life.security import Security
from mangrove.gateway.links.neighbourhood import Neighbourhood
from mangrove.gateway.management.terms_in_force import TermsInForce
from mangrove.gateway.management.terms_teller import TermsTeller
from mangrove.gateway.mediation.transforms import Transforms
from mangrove.gateway.retained import RetainedMirror
from mangrove.gateway.versions import Versions
from mangrove.model.versions.document import FederationDocument
from mangrove.overlay.engine import OverlayEngine


class Adoption:
    """Tells every part to which a version matters, in the order in which they build on each other."""

    def __init__(
        self,
        engine: OverlayEngine,
        neighbourhood: Neighbourhood,
        security: Security,
        transforms: Transforms,
        retained: RetainedMirror | None,
        head: HeadConnection,
        *,
        terms: TermsInForce,
        teller: TermsTeller,
        versions: Versions,
        told: Callable[[], None],
    ) -> None:
        """`told` is called when all is done: whoever watches this gateway should look."""
        self._engine = engine
        self._neighbourhood = neighbourhood
        self._security = security
        self._transforms = transforms
        self._retained = retained
        self._head = head
        self._terms = terms
        self._teller = teller
        self._versions = versions
        self._told = told

    def adopt(self, document: FederationDocument) -> None:
        """The engine goes by this version already."""
        self._neighbourhood.adopt()
        if not self._engine.departed:
            self._security.adopt(self._engine.federation)
        self._transforms.adopt(self._head.mediate)
        if self._retained is not None:
            self._retained.border = self._engine.border
        self._head.contracts_changed(self._terms.directions())
        self._teller.changed()
        self._versions.adopted(document)
        self._told()
