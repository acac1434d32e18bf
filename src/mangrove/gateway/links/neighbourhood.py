"""Links, and the agents' mail on them, as the document in force has them."""

from __future__ import annotations

import logging

from mangrove.gateway.links.lines import Lines
from mangrove.gateway.links.links import Links
from mangrove.gateway.management.agent_mail import AgentMail
from mangrove.overlay.engine import OverlayEngine

log = logging.getLogger(__name__)


class Neighbourhood:
    """Opens and closes links with the versions of the document."""

    def __init__(self, engine: OverlayEngine, links: Links, lines: Lines, mail: AgentMail) -> None:
        self._engine = engine
        self._links = links
        self._lines = lines
        self._mail = mail

    def adopt(self) -> None:
        """Follow what the engine has in force; nothing is done if links are what they were."""
        engine = self._engine
        if engine.departed:
            log.warning("%s has left the federation: nothing is exchanged with other domains", engine.domain)
            self._links.adopt(())
            self._mail.adopt(())
            self._lines.adopt(None)
            return
        peers = [link.other(engine.domain) for link in engine.federation.links_of(engine.domain)]
        self._links.adopt(peers)
        self._mail.adopt(peers)
        self._lines.adopt(engine.federation)
