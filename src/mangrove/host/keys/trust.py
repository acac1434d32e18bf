"""Whom this federation believes: certificates of its authorities, minus what was revoked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mangrove.errors import UntrustedError
from mangrove.host.keys.certificates import identity_of, sealing_key_in, serial_of
from mangrove.host.keys.revocation import Revocations
from mangrove.model.security.identity import Identity, Role

MAX_CREDENTIALS = 4096
"""Certificates that are remembered as good; those that are not cost a look each time, and no memory."""
MAX_CREDENTIAL_BYTES = 4096
STATEMENT = b"mangrove statement 1\0"
"""Before everything that a gateway signs: what is signed for TLS begins otherwise."""


class Credential(msgspec.Struct, frozen=True):
    """A certificate that an authority of this federation has issued to a gateway."""

    identity: Identity
    serial: str
    begins_s: float
    ends_s: float
    key: Ed25519PublicKey
    sealing: bytes

    def verifies(self, statement: bytes, signature: bytes) -> bool:
        """Whether its owner has signed a statement."""
        try:
            self.key.verify(signature, STATEMENT + statement)
        except InvalidSignature:
            return False
        return True


class Trust:
    """Judges certificates. What was found good once is looked up; its time and revocation are judged anew."""

    def __init__(
        self,
        federation: str,
        authorities: Sequence[x509.Certificate],
        revocations: Revocations,
        clock: Callable[[], float],
    ) -> None:
        self.federation = federation
        self.authorities = tuple(authorities)
        self.revocations = revocations
        self.clock = clock
        self._known: dict[bytes, Credential] = {}

    def credential(self, der: bytes) -> Credential:
        """The credential of these bytes, or UntrustedError with the reason."""
        credential = self._known.get(der)
        if credential is None:
            credential = self._examined(der)
            if len(self._known) >= MAX_CREDENTIALS:
                del self._known[next(iter(self._known))]
            self._known[der] = credential
        now_s = self.clock()
        if now_s > credential.ends_s:
            raise UntrustedError("its certificate has expired")
        if now_s < credential.begins_s:
            raise UntrustedError("its certificate is not valid yet")
        if credential.serial in self.revocations.serials:
            raise UntrustedError("its certificate was revoked")
        return credential

    def believes_nkey(self, nkey: str) -> bool:
        """Whether a user's NKEY was not revoked."""
        return nkey not in self.revocations.nkeys

    def _examined(self, der: bytes) -> Credential:
        if len(der) > MAX_CREDENTIAL_BYTES:
            raise UntrustedError("its certificate is too large")
        try:
            certificate = x509.load_der_x509_certificate(der)
        except (ValueError, TypeError, x509.InvalidVersion):
            raise UntrustedError("it has no certificate") from None
        if not any(_issued(certificate, authority) for authority in self.authorities):
            raise UntrustedError("its certificate is from another authority")
        try:  # from here on, what is read was written by an authority of ours
            public = certificate.public_key()
            identity = identity_of(certificate)
        except ValueError:
            raise UntrustedError("its certificate names nobody") from None
        if identity.federation != self.federation:
            raise UntrustedError(f"it is of another federation ({identity.federation})")
        if identity.role is not Role.GATEWAY or not isinstance(public, Ed25519PublicKey):
            raise UntrustedError(f"it is no gateway, but {identity}")
        try:
            sealing = sealing_key_in(certificate)
        except ValueError as problem:
            raise UntrustedError(f"its certificate is of no use: {problem}") from None
        return Credential(
            identity,
            serial_of(certificate),
            certificate.not_valid_before_utc.timestamp(),
            certificate.not_valid_after_utc.timestamp(),
            public,
            sealing,
        )


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
