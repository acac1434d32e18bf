"""NKEYs as nats-server knows them: an Ed25519 key with what it is for and a checksum, in base32.

Written as in github.com/nats-io/nkeys: a prefix byte whose five high bits become the first letter, the key,
and CRC-16/XMODEM in little-endian order.
"""

from __future__ import annotations

import base64
import binascii
import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PREFIX_SEED = 18 << 3  # 'S'
PREFIX_USER = 20 << 3  # 'U'
SEED_BYTES = 32
CHECKSUM_BYTES = 2


class UserKey:
    """The secret half of a user's NKEY. It never shows itself."""

    __slots__ = ("_key", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._key = Ed25519PrivateKey.from_private_bytes(raw)

    @classmethod
    def make(cls) -> UserKey:
        """A new one."""
        return cls(secrets.token_bytes(SEED_BYTES))

    @classmethod
    def from_seed(cls, text: str) -> UserKey:
        """The key of a seed as it stands in a file, or ValueError, which does not tell the seed."""
        content = _decoded(text)
        if len(content) != 2 + SEED_BYTES:
            raise ValueError("not a seed: its length is wrong")
        if content[0] & 0xF8 != PREFIX_SEED:
            raise ValueError("not a seed: it does not begin with S")
        if (content[0] & 0x07) << 5 | content[1] >> 3 != PREFIX_USER:
            raise ValueError("not the seed of a user: it does not begin with SU")
        return cls(content[2:])

    @property
    def seed(self) -> str:
        """The text that goes into a file that only its owner can read."""
        head = bytes([PREFIX_SEED | PREFIX_USER >> 5, (PREFIX_USER & 0x1F) << 3])
        return _encoded(head + self._raw)

    @property
    def public(self) -> str:
        """The public half, as it stands in a broker's configuration."""
        return _encoded(bytes([PREFIX_USER]) + self._key.public_key().public_bytes_raw())

    def sign(self, nonce: bytes) -> bytes:
        """The proof that a broker asks for, 64 bytes."""
        return self._key.sign(nonce)

    def __repr__(self) -> str:
        return f"UserKey({self.public})"


def is_user_nkey(text: str) -> bool:
    """Whether a text is the public half of a user's NKEY."""
    try:
        content = _decoded(text)
    except ValueError:
        return False
    return len(content) == 1 + SEED_BYTES and content[0] == PREFIX_USER


def is_signed(nkey: str, text: bytes, signature: bytes) -> bool:
    """Whether who has the secret half of an NKEY has signed a text."""
    if not is_user_nkey(nkey):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(_decoded(nkey)[1:]).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def _encoded(content: bytes) -> str:
    whole = content + binascii.crc_hqx(content, 0).to_bytes(CHECKSUM_BYTES, "little")
    return base64.b32encode(whole).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        whole = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        raise ValueError("not an NKEY: not base32") from None
    content, checksum = whole[:-CHECKSUM_BYTES], whole[-CHECKSUM_BYTES:]
    if (
        len(content) < CHECKSUM_BYTES
        or binascii.crc_hqx(content, 0).to_bytes(CHECKSUM_BYTES, "little") != checksum
    ):
        raise ValueError("not an NKEY: its checksum is wrong")
    return content
