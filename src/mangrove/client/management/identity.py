"""Who a client is: a key that it makes itself, and that its registrations and leases are bound to."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from mangrove.errors import InputError
from mangrove.model.agents.identity import KEY_BYTES, client_id, lease_key
from mangrove.model.agents.registration import Registration, Signed

OWNER_ONLY = 0o600


class Identity:
    """One client's keys: one that names it, and one of this process for the exchange with its agent."""

    def __init__(self, private_key: bytes | None = None) -> None:
        """Without a key, a new one."""
        if private_key is None:
            self._signing = Ed25519PrivateKey.generate()
        else:
            self._signing = Ed25519PrivateKey.from_private_bytes(private_key)
        self._exchange = X25519PrivateKey.generate()
        self._sequence = 0
        self.public_key = self._signing.public_key().public_bytes_raw()
        self.exchange_key = self._exchange.public_key().public_bytes_raw()
        self.client = client_id(self.public_key)
        """The client's id."""

    def next_sequence(self) -> int:
        """A number that grows, also over restarts: the clock's, unless that goes back."""
        self._sequence = max(self._sequence + 1, time.time_ns())
        return self._sequence

    def signed(self, registration: Registration) -> Signed:
        """A registration as it travels."""
        body = msgspec.json.encode(registration)
        return Signed(body=body, signature=self._signing.sign(body))

    def lease_key(self, agent_exchange: bytes, domain: str) -> bytes:
        """The key of seals that the agent with this exchange key accepts; ValueError if that is no key."""
        shared = self._exchange.exchange(X25519PublicKey.from_public_bytes(agent_exchange))
        return lease_key(shared, self.client, domain)

    def private_bytes(self) -> bytes:
        """The key itself."""
        return self._signing.private_bytes_raw()


def identity_in(path: Path) -> Identity:
    """The identity that a file holds; it is made, for its owner alone, if there is none."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise InputError(f"cannot keep an identity in {path}: {error.strerror}") from None
    made = Identity()
    with os.fdopen(handle, "w") as file:
        file.write(made.private_bytes().hex() + "\n")
    return made


def _read(path: Path) -> Identity:
    try:
        mode = path.stat().st_mode & 0o777
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the identity in {path}: {error}") from None
    if mode & 0o077:
        raise InputError(
            f"others may read the identity in {path} (mode {mode:o})",
            hint=f"chmod 600 {path}, or make another",
        )
    try:
        key = bytes.fromhex(text.strip())
        if len(key) != KEY_BYTES:
            raise ValueError("of another length")
        return Identity(key)
    except ValueError:
        raise InputError(
            f"{path} holds no identity",
            hint=f"{KEY_BYTES * 2} hexadecimal digits; remove it to get a new one",
        ) from None
