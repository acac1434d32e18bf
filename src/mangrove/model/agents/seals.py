"""How a client's id follows from its key, and how its messages are sealed: what both ends must agree on."""

from __future__ import annotations

import base64
import hashlib
import hmac

ID_BYTES = 15
SEAL_BYTES = 16
SEAL_KEY_BYTES = 32
ID_LENGTH = ID_BYTES * 8 // 5


def client_id(public_key: bytes) -> str:
    """The id of the client with this Ed25519 key: 24 letters and digits, good as a token of a subject."""
    digest = hashlib.blake2b(public_key, digest_size=ID_BYTES, person=b"mangrove-client").digest()
    return base64.b32encode(digest).decode().lower()


def is_client_id(text: str) -> bool:
    """Whether a text could be a client's id."""
    return len(text) == ID_LENGTH and text.isascii() and text.isalnum() and text == text.lower()


def seal_key(shared_secret: bytes, client_exchange: bytes, agent_exchange: bytes, client: str) -> bytes:
    """The key of the seals between a client and an agent, from what their X25519 exchange gives to both."""
    bound = hashlib.blake2b(client_exchange + agent_exchange + client.encode(), digest_size=64).digest()
    return hashlib.blake2b(
        bound, key=shared_secret, digest_size=SEAL_KEY_BYTES, person=b"mangrove-seal"
    ).digest()


def seal(key: bytes, body: bytes) -> bytes:
    """The seal of a message."""
    return hashlib.blake2b(body, key=key, digest_size=SEAL_BYTES).digest()


def seal_holds(key: bytes, body: bytes, claimed: bytes) -> bool:
    """Whether a message carries the seal that its sender would have made."""
    return hmac.compare_digest(seal(key, body), claimed)
