"""How letters leave for other domains, and which ones they can reach."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.overlay.engine import OverlayEngine


class LetterPost:
    """Sends letters as answers are sent, by whatever way there is now."""

    def __init__(self, engine: OverlayEngine, flush: Callable[[], None]) -> None:
        """`flush` sends on what the engine's flows gathered."""
        self._engine = engine
        self._flush = flush

    def send(self, domain: str, letter: bytes) -> None:
        """Send a letter, if there is a way."""
        flow = self._engine.route_reply(domain)
        if flow is not None:
            flow.take(letter)
            self._flush()

    def reachable(self) -> frozenset[str]:
        """The domains to which there is a way."""
        engine = self._engine
        federation, domain = engine.federation, engine.domain
        unusable = {
            link.pair for link in federation.links_of(domain) if not engine.usable(link.other(domain))
        }
        return federation.reachable(domain, unusable | engine.failed_links)
