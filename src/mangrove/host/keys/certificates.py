"""Certificates: who issues them, what they say, and how they are made."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mangrove.model.security.identity import BROKERS, Identity, brokers_name

AUTHORITY_DAYS = 3650
IDENTITY_DAYS = 730
CLOCK_SKEW = timedelta(hours=1)
"""Machines whose clock is late believe a new certificate at once."""
MAX_COMMON_NAME = 64

SEALING_KEY = x509.ObjectIdentifier("2.25.298714320177218464712930164412853021977")
"""Extension with the public X25519 key of a domain, 32 bytes; the number is a UUID of our own."""

PrivateKey = ec.EllipticCurvePrivateKey | Ed25519PrivateKey | X25519PrivateKey


class Authority(msgspec.Struct, frozen=True):
    """What issues certificates: its key never leaves the machine of who runs the federation."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, federation: str, number: int, now: datetime) -> Authority:
        """A new one. The `number` gives each authority of a federation a name of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"Mangrove {number} {federation}")
        builder = (
            _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    def issue_gateway(
        self, identity: Identity, key: Ed25519PrivateKey, sealing: X25519PrivateKey, now: datetime
    ) -> x509.Certificate:
        """Who a gateway is: for links, for what it signs, and for what is sealed for its domain."""
        public = sealing.public_key().public_bytes_raw()
        builder = self._identity(identity, (), key.public_key(), now).add_extension(
            x509.UnrecognizedExtension(SEALING_KEY, public), critical=False
        )
        return builder.sign(self.key, hashes.SHA256())

    def issue_broker(
        self, identity: Identity, addresses: Sequence[str], key: ec.EllipticCurvePrivateKey, now: datetime
    ) -> x509.Certificate:
        """Who a broker is, and at which addresses its clients find it."""
        names = (*addresses, brokers_name(identity.federation, identity.domain))
        return self._identity(identity, names, key.public_key(), now).sign(self.key, hashes.SHA256())

    def _identity(
        self, identity: Identity, addresses: Sequence[str], public: CertificatePublicKeyTypes, now: datetime
    ) -> x509.CertificateBuilder:
        names = [x509.UniformResourceIdentifier(identity.uri), *map(_address, addresses)]
        issuer_key = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        return (
            _builder(
                _name(identity.name or identity.domain), self.certificate.subject, public, now, IDENTITY_DAYS
            )
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key), critical=False
            )
        )


def identity_of(certificate: x509.Certificate) -> Identity:
    """Who a certificate is about, or ValueError: it names exactly one identity."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("it names nobody") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise ValueError("it names nobody" if not uris else "it names more than one")
    return Identity.parse(uris[0])


def addresses_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Where the clients of a broker find it, as its certificate says."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    numbers = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    hosts = [name for name in names.get_values_for_type(x509.DNSName) if not name.endswith(BROKERS)]
    return (*hosts, *numbers)


def sealing_key_in(certificate: x509.Certificate) -> bytes:
    """The public sealing key that a gateway's certificate carries, or ValueError."""
    try:
        extension = certificate.extensions.get_extension_for_oid(SEALING_KEY).value
    except x509.ExtensionNotFound:
        raise ValueError("it has no sealing key") from None
    assert isinstance(extension, x509.UnrecognizedExtension)
    if len(extension.value) != 32:
        raise ValueError("its sealing key is not one")
    return extension.value


def serial_of(certificate: x509.Certificate) -> str:
    """By which a certificate is revoked."""
    return f"{certificate.serial_number:x}"


def certificate_pem(*certificates: x509.Certificate) -> bytes:
    """Certificates as text."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def key_pem(key: PrivateKey) -> bytes:
    """A key as text; it goes into a file that only its owner can read."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def today() -> datetime:
    """Now, as certificates count it."""
    return datetime.now(UTC).replace(microsecond=0)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: CertificatePublicKeyTypes, now: datetime, days: int
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - CLOCK_SKEW,
        not_valid_after=now + timedelta(days=days),
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:MAX_COMMON_NAME])])


def _address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
