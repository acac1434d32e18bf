"""Passwords at a RabbitMQ, which knows no NKEYs.

That of the gateway follows from the seed of its NKEY, which it and its host have: nothing more is to be kept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

_PURPOSE = b"mangrove: password at a RabbitMQ"


def password_of(seed: str) -> str:
    """The password of a user of ours who has this seed."""
    return base64.urlsafe_b64encode(hmac.digest(seed.encode(), _PURPOSE, hashlib.sha256)).decode()
