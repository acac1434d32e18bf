"""Keys that two domains share and nobody else has, made of their sealing keys, to prove who sent a frame."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PURPOSE = b"mangrove frame tags 1"
KEY_BYTES = 32


def shared_key(own: X25519PrivateKey, other: bytes) -> bytes:
    """The same at both ends; for this purpose alone, and these two keys."""
    mine = own.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    info = PURPOSE + b"".join(sorted((mine, other)))
    secret = own.exchange(X25519PublicKey.from_public_bytes(other))
    return HKDF(SHA256(), KEY_BYTES, None, info).derive(secret)
