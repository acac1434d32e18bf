"""Who a client is: an id derived from its public key, and seals that only its registration's key can make.

Client and agent derive the same lease key from an X25519 exchange; the exchange itself is done where
cryptography is at hand. Everything here is hashing, so that both ends share it.
"""

from __future__ import annotations

import hashlib
import hmac

ID_BYTES = 16
KEY_BYTES = 32
SEAL_BYTES = 16
SIGNATURE_BYTES = 64


def client_id(public_key: bytes) -> str:
    """The id of whoever holds the private half of this Ed25519 key: 32 hexadecimal digits."""
    return hashlib.blake2b(public_key, digest_size=ID_BYTES, person=b"mangrove-client").hexdigest()


def lease_key(shared_secret: bytes, client: str, domain: str) -> bytes:
    """The key of a client's seals in a domain, from what its exchange with the agent came to."""
    bound = f"{domain}/{client}".encode()
    return hashlib.blake2b(bound, key=shared_secret, digest_size=KEY_BYTES, person=b"mangrove-lease").digest()


def seal_of(key: bytes, body: bytes) -> bytes:
    """The seal of a message under a lease key."""
    return hashlib.blake2b(body, key=key, digest_size=SEAL_BYTES, person=b"mangrove-seal").digest()


def is_sealed_by(key: bytes, body: bytes, seal: bytes) -> bool:
    """Whether a seal is that of this key; takes the same time whether it is or not."""
    return hmac.compare_digest(seal_of(key, body), seal)
