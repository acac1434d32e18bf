"""From the keys of two domains to the keys of one envelope.

Two domains share what X25519 makes of the one's private and the other's public key, and nobody else can
compute it. HKDF makes of that, and of the envelope's salt, a key that wraps one content key for one recipient
and a key that proves to it who sealed; both are bound to the federation, to the two names and to the ids of
the two keys, so that no envelope can be taken for one between others. Each wrapping key is used once, because
salts are random, so its nonce may be fixed.
"""

from __future__ import annotations

import struct
from hashlib import blake2b, sha256
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mangrove.overlay.sealing.sealed_body import CONTENT_KEY_BYTES, KEY_ID_BYTES, TAG_BYTES

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


class PairKeys(NamedTuple):
    """The keys of one envelope that an origin shares with one destination."""

    wrapping: AESGCM
    proving: bytes

    def wrap(self, content_key: bytes, audience: bytes) -> bytes:
        """A content key for this destination alone, as one of this audience. Once for each envelope."""
        return self.wrapping.encrypt(_ONCE, content_key, audience)

    def unwrap(self, wrapped_key: bytes, audience: bytes) -> bytes:
        """The content key; InvalidTag if it was not wrapped with these keys, or for another audience."""
        return self.wrapping.decrypt(_ONCE, wrapped_key, audience)

    def seal_of(self, digest: bytes) -> bytes:
        """Proves to this destination that the origin sealed what has this digest.

        Where several domains hold a content key each of them could make a body with it.
        """
        return blake2b(digest, key=self.proving, digest_size=TAG_BYTES).digest()

    def __repr__(self) -> str:
        return "PairKeys()"


def pair_keys(shared_secret: bytes, salt: bytes, parties: Parties) -> PairKeys:
    """The keys of an envelope with this salt."""
    derived = HKDF(SHA256(), 2 * CONTENT_KEY_BYTES, salt, parties.encode()).derive(shared_secret)
    return PairKeys(AESGCM(derived[:CONTENT_KEY_BYTES]), derived[CONTENT_KEY_BYTES:])


def key_id(public_key: bytes) -> bytes:
    """The name of a public key."""
    return blake2b(public_key, digest_size=KEY_ID_BYTES, person=b"mangrove seal id").digest()


def nonce(counter: int) -> bytes:
    """Of the body with this number under a content key: no two have the same."""
    return _COUNTER.pack(counter)


def digest_of(authenticated: bytes, ciphertext: bytes) -> bytes:
    """Names a sealed body with the facts that belong to it."""
    digest = sha256(len(authenticated).to_bytes(4, "big"))
    digest.update(authenticated)
    digest.update(ciphertext)
    return digest.digest()
