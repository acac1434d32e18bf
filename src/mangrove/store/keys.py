"""Keys of buckets: any text becomes one that JetStream takes; what it was is told by the value."""

from __future__ import annotations

import hashlib
import re

MAX_KEY_BYTES = 900
"""A subject with such a key stays well below what a control line holds."""

_PLAIN = re.compile(rb"[^-_.a-zA-Z0-9]")
_HASHED = "=hash."


def store_key(text: str) -> str:
    """A key for a text; different texts have different keys. Wildcards and the like become `=3E`."""
    encoded = _PLAIN.sub(_escape, text.encode()).decode()
    if not encoded or encoded.startswith(".") or encoded.endswith(".") or ".." in encoded:
        encoded = encoded.replace(".", "=2E") or "="
    if len(encoded) <= MAX_KEY_BYTES:
        return encoded
    return _HASHED + hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def _escape(found: re.Match[bytes]) -> bytes:
    return b"=%02X" % found.group()[0]
