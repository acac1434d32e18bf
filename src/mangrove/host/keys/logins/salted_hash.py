"""Hashes of passwords for brokers that know no bcrypt: SHA-256 with a salt, as RabbitMQ keeps them.

Quick to compute, which does no harm: our passwords are random
(docs/decisions/0112-passwords-are-random-and-hashed-cheaply.md).
"""

from __future__ import annotations

import base64
import hashlib
import secrets

SALT_BYTES = 4


def salted_sha256(password: str, salt: bytes = b"") -> str:
    """Salt and hash, in base64; without a `salt`, with a new one."""
    salt = salt or secrets.token_bytes(SALT_BYTES)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
