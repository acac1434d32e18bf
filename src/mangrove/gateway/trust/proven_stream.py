"""The TLS of one connection between gateways, up to the proof of who is at the other end.

For a caller that has said nothing whole yet, nothing is kept but its first bytes: OpenSSL's state for it is
made when they are a whole greeting of TLS, and the ration allows it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mangrove.errors import UntrustedError
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.gateway.trust.refusals import Refusal, RefusedError
from mangrove.host.tls_channel import NoTlsError, TlsChannel, first_record_bytes
from mangrove.overlay.protocol.frames import MAGIC

MAX_HANDSHAKE_BYTES = 1 << 16
"""Bytes that a peer may say before it has proven who it is."""


class Proof(NamedTuple):
    """Whose gateway is at the other end, by which certificate."""

    domain: str
    certificate: bytes


class ProvenStream:
    """Bytes of the line in, words of a proven peer out; and the other way round."""

    def __init__(
        self,
        keys: KeysInForce,
        *,
        calls: bool,
        may_be: frozenset[str],
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_be`: the domains whose gateway the peer may be. `may_begin` is asked before a caller is
        answered, because that takes time and memory."""
        self._keys = keys
        self._may_be = may_be
        self._may_begin = may_begin
        self._first = bytearray()
        self._heard_bytes = 0
        self._channel = TlsChannel(keys.context(server_side=False), server_side=False) if calls else None
        self.proof: Proof | None = None

    def begin(self) -> bytes:
        """What the caller writes first."""
        assert self._channel is not None
        return self._channel.begin()

    def receive(self, data: bytes) -> bytes:
        """What a proven peer says; empty before that. RefusedError if it is refused.

        In either case `outgoing` may have something for the line.
        """
        if self.proof is None:
            self._heard_bytes += len(data)
            if self._heard_bytes > MAX_HANDSHAKE_BYTES:
                raise RefusedError(Refusal.HANDSHAKE, f"more than {MAX_HANDSHAKE_BYTES} bytes")
            if self._heard_bytes == len(data) or self._channel is None:
                self._first += data
                if not self._whole():
                    return b""
                data = bytes(self._first)
                self._first.clear()
        assert self._channel is not None
        try:
            plain = self._channel.receive(data)
        except ssl.SSLError as error:
            raise self._problem(error) from None
        if self._channel.established and self.proof is None:
            self.proof = self._prove(self._channel)
        return plain

    def _whole(self) -> bool:
        """Whether there is a channel that can take the first bytes; a caller's whole greeting makes one."""
        if self._channel is not None:
            if self._first.startswith(MAGIC):
                raise RefusedError(Refusal.NO_TLS)
            return True
        try:
            needed = first_record_bytes(self._first)
        except NoTlsError:
            raise RefusedError(Refusal.NO_TLS) from None
        if not needed or len(self._first) < needed:
            return False
        if not self._may_begin():
            raise RefusedError(Refusal.TOO_MANY, "handshakes are rationed")
        self._channel = TlsChannel(self._keys.context(server_side=True), server_side=True)
        return True

    def _problem(self, error: ssl.SSLError) -> RefusedError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return RefusedError(Refusal.UNTRUSTED, error.verify_message)
        return RefusedError(Refusal.HANDSHAKE, str(error.reason or error).replace("_", " ").lower())

    def _prove(self, channel: TlsChannel) -> Proof:
        from mangrove.model.security.identity import Role

        try:
            identity = self._keys.ring.peer(channel.tls)
        except UntrustedError as error:
            raise RefusedError(Refusal.UNTRUSTED, error.reason) from None
        if identity.role is not Role.GATEWAY:
            raise RefusedError(Refusal.STRANGER, f"it is of {identity.uri}, which is no gateway")
        if identity.domain not in self._may_be:
            raise RefusedError(Refusal.STRANGER, f"it is of the domain {identity.domain!r}")
        certificate = channel.tls.getpeercert(binary_form=True)
        assert certificate is not None  # `peer` has read it
        return Proof(identity.domain, certificate)

    def outgoing(self) -> bytes:
        """What the handshake, or its failure, has for the line."""
        return b"" if self._channel is None else self._channel.outgoing()

    def seal(self, buffers: Iterable[bytes]) -> bytes:
        """Words to the peer as they go on the line; only after the handshake."""
        assert self._channel is not None
        return self._channel.seal(buffers)

    def release(self) -> None:
        """The connection is gone: let go of OpenSSL's state, which no collection of garbage has to find."""
        self._channel = None
        self._first.clear()

    @property
    def ended(self) -> bool:
        """Whether the peer has said that it says nothing more."""
        return self._channel is not None and self._channel.ended

    @property
    def records_out(self) -> int:
        """How many records were sent under the present keys."""
        return 0 if self._channel is None else self._channel.records_out

    def set_record_bytes(self, size_bytes: int) -> None:
        """How much goes into one record."""
        if self._channel is not None:
            self._channel.record_bytes = size_bytes
