"""Whether what clients say is theirs: signatures of registrations, seals of everything that follows.

Nothing that fails here reaches the brain. Each refusal has one of a few reasons, by which it is counted.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import StrEnum

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from mangrove.errors import MangroveError
from mangrove.model.agents.identity import client_id, is_sealed_by, lease_key
from mangrove.model.agents.registration import (
    LEASE_S,
    MAX_WISHES,
    ClientMessage,
    Leave,
    Migrated,
    Registration,
    Report,
    Sealed,
    Signed,
    Traffic,
)
from mangrove.model.unreadable import UNREADABLE

MAX_MESSAGE_BYTES = 1_000_000
MAX_CLIENTS = 100_000
"""Clients whose keys are kept; beyond it those that were silent longest must register again."""
MAX_SEQUENCE = 1 << 62
MAX_COUNT = 1 << 53
MAX_REPEATED = 1 << 32
"""Copies in one move: so many do not come, and what all moves of all clients come to has 64 bits."""
MAX_SPAN_S = 3600.0
FORGET_AFTER_S = 4 * LEASE_S


class Reason(StrEnum):
    """Why a message is refused."""

    TOO_LARGE = "too large"
    UNREADABLE = "cannot be read"
    FORGED_ID = "an id that does not follow from the key"
    FORGED_SIGNATURE = "a signature that is not the client's"
    BAD_EXCHANGE = "an exchange key that is none"
    OTHER_DOMAIN = "meant for another domain"
    STALE = "older than what the client said before"
    UNKNOWN = "a client that has not registered"
    FORGED_SEAL = "a seal that is not the client's"
    IMPOSSIBLE = "impossible figures"
    TOO_MANY = "too many wishes"
    OTHER_USER = "a client of another user"
    NO_USER = "said by nobody who has logged in"


class RefusedError(MangroveError):
    """A message that is not to be believed."""

    def __init__(self, reason: Reason, client: str = "") -> None:
        super().__init__(f"refused: {reason.value}")
        self.reason = reason
        self.client = client


class _Known(msgspec.Struct):
    """A client that has registered."""

    key: bytes
    sequence: int
    heard_at: float
    user: str
    """Who registered it, where users log in."""


_signed = msgspec.json.Decoder(Signed)
_registration = msgspec.json.Decoder(Registration)
_sealed = msgspec.json.Decoder(Sealed)
_message: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)


class LeaseKeys:
    """The keys of the clients of one domain, for as long as this process lives."""

    def __init__(self, domain: str, *, users: bool = False) -> None:
        """Where `users` log in, only they are heard, and each for its own clients alone."""
        self._domain = domain
        self._logged_in = users
        self._private = X25519PrivateKey.generate()
        self.exchange_key = self._private.public_key().public_bytes_raw()
        """The agent's half of every exchange."""
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def open_registration(self, data: bytes, user: str = "") -> Registration:
        """A registration that a user brings, if its signature is that of the client whose id it names."""
        self._check_login(user)
        if len(data) > MAX_MESSAGE_BYTES:
            raise RefusedError(Reason.TOO_LARGE)
        try:
            signed = _signed.decode(data)
            registration = _registration.decode(signed.body)
        except UNREADABLE:
            raise RefusedError(Reason.UNREADABLE) from None
        client = registration.client
        if client != client_id(registration.public_key):
            raise RefusedError(Reason.FORGED_ID)
        try:
            Ed25519PublicKey.from_public_bytes(registration.public_key).verify(signed.signature, signed.body)
        except (InvalidSignature, ValueError):
            raise RefusedError(Reason.FORGED_SIGNATURE) from None
        if registration.domain not in ("", self._domain):
            raise RefusedError(Reason.OTHER_DOMAIN, client)
        if len(registration.wishes) > MAX_WISHES or len(registration.ended) > MAX_WISHES:
            raise RefusedError(Reason.TOO_MANY, client)
        self._check_user(client, user)
        self._check_sequence(client, registration.sequence)
        return registration

    def admit(self, registration: Registration, now: float, user: str = "") -> None:
        """From now on this client's seals are those of its registration's exchange, and it is this user's."""
        client = registration.client
        try:
            theirs = X25519PublicKey.from_public_bytes(registration.exchange_key)
            shared = self._private.exchange(theirs)
        except ValueError:  # of another length, or a point that gives no secret
            raise RefusedError(Reason.BAD_EXCHANGE, client) from None
        key = lease_key(shared, client, self._domain)
        self._known[client] = _Known(key, registration.sequence, now, user)
        self._known.move_to_end(client)
        while len(self._known) > MAX_CLIENTS:
            self._known.popitem(last=False)

    def open_message(self, data: bytes, now: float, user: str = "") -> ClientMessage:
        """What a registered client says under its own seal, on its own user's subject."""
        self._check_login(user)
        if len(data) > MAX_MESSAGE_BYTES:
            raise RefusedError(Reason.TOO_LARGE)
        try:
            sealed = _sealed.decode(data)
        except UNREADABLE:
            raise RefusedError(Reason.UNREADABLE) from None
        known = self._known.get(sealed.client)
        if known is None:
            raise RefusedError(Reason.UNKNOWN, sealed.client)
        if not is_sealed_by(known.key, sealed.body, sealed.seal):
            raise RefusedError(Reason.FORGED_SEAL, sealed.client)
        self._check_user(sealed.client, user)
        try:
            message = _message.decode(sealed.body)
        except UNREADABLE:
            raise RefusedError(Reason.UNREADABLE) from None
        if message.client != sealed.client:
            raise RefusedError(Reason.FORGED_ID)
        self._check_sequence(message.client, message.sequence)
        if not _possible(message):
            raise RefusedError(Reason.IMPOSSIBLE)
        known.sequence, known.heard_at = message.sequence, now
        self._known.move_to_end(message.client)
        if isinstance(message, Leave):
            del self._known[message.client]
        return message

    def user_of(self, client: str) -> str:
        """Whose client it is; empty where nobody logs in, or if it is not known."""
        known = self._known.get(client)
        return "" if known is None else known.user

    def _check_login(self, user: str) -> None:
        if self._logged_in and not user:
            raise RefusedError(Reason.NO_USER)

    def _check_user(self, client: str, user: str) -> None:
        """A client belongs to the user who registered it, for as long as it is known."""
        known = self._known.get(client)
        if known is not None and known.user != user:
            raise RefusedError(Reason.OTHER_USER)

    def prune(self, now: float) -> None:
        """Forget clients whose leases ended long ago."""
        while self._known:
            client, known = next(iter(self._known.items()))
            if known.heard_at > now - FORGET_AFTER_S:
                return
            del self._known[client]

    def _check_sequence(self, client: str, sequence: int) -> None:
        known = self._known.get(client)
        if not 0 <= sequence < MAX_SEQUENCE or (known is not None and sequence <= known.sequence):
            raise RefusedError(Reason.STALE)


def _possible(message: ClientMessage) -> bool:
    """Whether the figures of a message could be true of any client."""
    if isinstance(message, Migrated):
        return 0 <= message.repeated < MAX_REPEATED
    if not isinstance(message, Report):
        return True
    carried = (message.received, message.published, message.withheld)
    return 0.0 < message.span_s <= MAX_SPAN_S and all(
        _countable(traffic) for part in carried for traffic in part.values()
    )


def _countable(traffic: Traffic) -> bool:
    return 0 <= traffic.messages < MAX_COUNT and 0 <= traffic.size_bytes < MAX_COUNT
