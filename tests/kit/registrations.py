"""Clients as an agent hears of them: keys, signatures and seals, without a client."""

from __future__ import annotations

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from mangrove.model.agents.identity import client_id, lease_key, seal_of
from mangrove.model.agents.registration import (
    ClientMessage,
    ClientRole,
    Leave,
    Registration,
    Report,
    Sealed,
    Signed,
    Traffic,
    Wish,
)


class SigningClient:
    """A client's keys, and messages made with them."""

    def __init__(self, domain: str = "here") -> None:
        self.domain = domain
        self._identity = Ed25519PrivateKey.generate()
        self._exchange = X25519PrivateKey.generate()
        self.public_key = self._identity.public_key().public_bytes_raw()
        self.exchange_key = self._exchange.public_key().public_bytes_raw()
        self.client = client_id(self.public_key)
        self.sequence = 0
        self.key = b""

    def registration(self, *subjects: str, **changes: object) -> Registration:
        """The next registration, with a wish for each subject."""
        self.sequence += 1
        made = Registration(
            client=self.client,
            sequence=self.sequence,
            public_key=self.public_key,
            exchange_key=self.exchange_key,
            domain=self.domain,
            wishes=tuple(Wish(key=each, role=ClientRole.SUBSCRIBER, subject=each) for each in subjects),
        )
        return msgspec.structs.replace(made, **changes)

    def signed(self, registration: Registration) -> bytes:
        """As it travels."""
        body = msgspec.json.encode(registration)
        return msgspec.json.encode(Signed(body=body, signature=self._identity.sign(body)))

    def share(self, agent_exchange_key: bytes) -> None:
        """Both ends derive the same key."""
        shared = self._exchange.exchange(X25519PublicKey.from_public_bytes(agent_exchange_key))
        self.key = lease_key(shared, self.client, self.domain)

    def report(self, span_s: float = 1.0, **received: tuple[int, int]) -> Report:
        """The next report."""
        self.sequence += 1
        traffic = {key: Traffic(messages, size) for key, (messages, size) in received.items()}
        return Report(client=self.client, sequence=self.sequence, span_s=span_s, received=traffic)

    def leave(self) -> Leave:
        """The last message."""
        self.sequence += 1
        return Leave(client=self.client, sequence=self.sequence)

    def sealed(self, message: ClientMessage) -> bytes:
        """As it travels."""
        body = msgspec.json.encode(message)
        return msgspec.json.encode(Sealed(client=self.client, body=body, seal=seal_of(self.key, body)))
