"""From the keys of two domains to the keys of one envelope.

Two domains share what X25519 makes of the one's private and the other's public key, and nobody else can
compute it. HKDF makes of that, and of the envelope's salt, a key that wraps one content key for one
recipient; it is bound to the federation, to the two names and to the ids of the two keys, so that no envelope
can be taken for one between others. Each wrapping key is used once, because salts are random, so its nonce
may be fixed.

Several recipients know a content key, and each could make bodies with it: who made a frame is proven to each
destination by the frame's tag (`overlay.trust.frame_tags`).
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mangrove.overlay.sealing.sealed_body import CONTENT_KEY_BYTES, KEY_ID_BYTES

PURPOSE = b"mangrove sealed body 1"
_COUNTER = struct.Struct(">4xQ")
_ONCE = bytes(12)


class Parties(NamedTuple):
    """Between whom a body travels."""

    federation: str
    origin: str
    destination: str
    origin_key_id: bytes
    destination_key_id: bytes

    def encode(self) -> bytes:
        """Each with its length, so that no two different ones read alike."""
        names = (self.federation.encode(), self.origin.encode(), self.destination.encode())
        parts = (PURPOSE, *names, self.origin_key_id, self.destination_key_id)
        return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


class WrappingKey:
    """The key of one envelope that an origin shares with one destination."""

    def __init__(self, shared_secret: bytes, salt: bytes, parties: Parties) -> None:
        derived = HKDF(SHA256(), CONTENT_KEY_BYTES, salt, parties.encode()).derive(shared_secret)
        self._cipher = AESGCM(derived)

    def wrap(self, content_key: bytes, audience: bytes) -> bytes:
        """A content key for this destination alone, as one of this audience. Once for each envelope."""
        return self._cipher.encrypt(_ONCE, content_key, audience)

    def unwrap(self, wrapped_key: bytes, audience: bytes) -> bytes:
        """The content key; InvalidTag if it was not wrapped with this key, or for another audience."""
        return self._cipher.decrypt(_ONCE, wrapped_key, audience)


def key_id(public_key: bytes) -> bytes:
    """The name of a public key."""
    return blake2b(public_key, digest_size=KEY_ID_BYTES, person=b"mangrove seal id").digest()


def nonce(counter: int) -> bytes:
    """Of the body with this number under a content key: no two have the same."""
    return _COUNTER.pack(counter)
