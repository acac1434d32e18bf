"""Which client a message's origin belongs to: by it subscribers name whom they judge."""

from __future__ import annotations

from collections import Counter

MAX_ORIGIN_CHARACTERS = 64


class Origins:
    """Origins that clients have registered. One belongs to the first that named it, as long as that stays."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._clients: dict[str, str] = {}
        self._origins: dict[str, str] = {}

    def claim(self, client: str, origin: str) -> bool:
        """A client says how the ids of its messages begin; False if they are another's, or cannot be."""
        if not origin:
            return True
        if len(origin) > MAX_ORIGIN_CHARACTERS or not (origin.isascii() and origin.isprintable()):
            self.refused["an origin that cannot be"] += 1
            return False
        if self._clients.get(origin, client) != client:
            self.refused["an origin of another client"] += 1
            return False
        before = self._origins.get(client)
        if before is not None and before != origin:
            del self._clients[before]
        self._clients[origin] = client
        self._origins[client] = origin
        return True

    def left(self, client: str) -> None:
        """A client is gone; its origin is free."""
        origin = self._origins.pop(client, None)
        if origin is not None:
            del self._clients[origin]

    def client_of(self, origin: str) -> str | None:
        """Whose messages begin so, if a client of this domain has said that they are its own."""
        return self._clients.get(origin)

    def origin_of(self, client: str) -> str | None:
        """How a client's messages begin."""
        return self._origins.get(client)
