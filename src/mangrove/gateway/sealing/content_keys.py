"""The keys that bodies are encrypted with: random, made here, one for each flow, and never for long.

A content key lives in the memory of one process and counts its own bodies, so no nonce repeats under it,
whatever names frames have. It makes room for a new one after some time, after so many bodies, and whenever
the keys of the domains have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from os import urandom
from time import monotonic, time_ns

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mangrove.gateway.sealing.key_schedule import Parties, WrappingKey, nonce
from mangrove.gateway.sealing.sealing_keys import SealingKeys
from mangrove.overlay.sealing.sealed_body import (
    CONTENT_KEY_BYTES,
    KEY_ID_BYTES,
    SALT_BYTES,
    TAG_BYTES,
    Envelope,
    Recipient,
)

LIFE_S = 600.0
MAX_BODIES = 1 << 20
MAX_CONTENT_KEYS = 4096

NO_KEY_ID = bytes(KEY_ID_BYTES)
NO_KEY = bytes(CONTENT_KEY_BYTES + TAG_BYTES)
"""What stands in the place of a domain whose key is not known: it cannot open the body, and says so."""


class ContentKey:
    """One content key with its envelope."""

    __slots__ = ("_cipher", "_counter", "envelope", "until", "version")

    def __init__(self, cipher: AESGCM, envelope: bytes, version: int, until: float) -> None:
        self._cipher = cipher
        self._counter = 0
        self.envelope = envelope
        self.version = version
        """Of the domains' keys that it was made with."""
        self.until = until

    @property
    def counter(self) -> int:
        """The number of the next body."""
        return self._counter

    def encrypt(self, plain: bytes, authenticated: bytes) -> bytes:
        """The next body; its number is never used again."""
        counter = self._counter
        self._counter += 1
        return self._cipher.encrypt(nonce(counter), plain, authenticated)


class ContentKeys:
    """Makes content keys, and keeps those in use."""

    def __init__(
        self,
        federation: str,
        order: tuple[str, ...],
        domain: str,
        keys: SealingKeys,
        *,
        clock: Callable[[], float] = monotonic,
        wall_clock_ns: Callable[[], int] = time_ns,
    ) -> None:
        self._federation = federation
        self._order = order
        self._domain = domain
        self._keys = keys
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns
        self._kept: dict[tuple[int, int], ContentKey] = {}
        self._last_number = 0
        self.made = 0
        self.without_key: set[str] = set()
        """Domains for which something was to be sealed, though their keys are not known."""

    def adopt(self, order: tuple[str, ...]) -> None:
        """Other domains are members."""
        self._order = order

    def of(self, flow_id: int, destinations: int) -> ContentKey:
        """The content key for the next body of a flow."""
        self._keys.follow_clock()
        key = self._kept.get((flow_id, destinations))
        if (
            key is None
            or key.version != self._keys.version
            or key.counter >= MAX_BODIES
            or self._clock() >= key.until
        ):
            if key is None and len(self._kept) >= MAX_CONTENT_KEYS:
                del self._kept[next(iter(self._kept))]
            key = self._kept[flow_id, destinations] = self._make(destinations)
        return key

    def _make(self, destinations: int) -> ContentKey:
        self.made += 1
        number = self._last_number = max(self._last_number + 1, self._wall_clock_ns())
        salt, content_key = urandom(SALT_BYTES), urandom(CONTENT_KEY_BYTES)
        names = [name for position, name in enumerate(self._order) if destinations >> position & 1]
        pairs = [self._pair(name, salt) for name in names]
        blank = [
            Recipient(self._order.index(name), NO_KEY_ID if pair is None else pair[0], NO_KEY)
            for name, pair in zip(names, pairs, strict=True)
        ]
        envelope = Envelope(number, salt, self._keys.sealing_id, tuple(blank))
        audience = envelope.audience
        recipients = tuple(
            each if pair is None else each._replace(wrapped_key=pair[1].wrap(content_key, audience))
            for each, pair in zip(blank, pairs, strict=True)
        )
        whole = envelope._replace(recipients=recipients).encode()
        return ContentKey(AESGCM(content_key), whole, self._keys.version, self._clock() + LIFE_S)

    def _pair(self, name: str, salt: bytes) -> tuple[bytes, WrappingKey] | None:
        """The key to seal with for a domain, by its id, and what is shared with it; None if there is none."""
        own_id, other_id = self._keys.sealing_id, self._keys.newest_id_of(name)
        secret = None if other_id is None else self._keys.shared_secret(own_id, name, other_id)
        if other_id is None or secret is None:
            self.without_key.add(name)
            return None
        self.without_key.discard(name)
        parties = Parties(self._federation, self._domain, name, own_id, other_id)
        return other_id, WrappingKey(secret, salt, parties)
