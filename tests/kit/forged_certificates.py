"""Certificates as attackers have them: of other authorities, of other times, for other names."""

from __future__ import annotations

import ssl
import tempfile
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mangrove.host.keys.certificates import Authority, PrivateKey, certificate_pem, key_pem, today
from mangrove.host.keys.directory import DomainKeys
from mangrove.model.security.identity import Identity, Role

TLS12 = ssl.TLSVersion.TLSv1_2


def careless_context(
    *chain: x509.Certificate, key: PrivateKey | None = None, version: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    """TLS for somebody who does not care who answers, and shows these certificates, or none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        context.maximum_version = version
    if key is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate_pem(*chain) + key_pem(key))
            file.flush()
            context.load_cert_chain(file.name)
    return context


def issued(
    authority: Authority, federation: str, domain: str, role: Role = Role.GATEWAY, now: datetime | None = None
) -> ssl.SSLContext:
    """TLS with a certificate that an authority has issued for a name, with a key of its own."""
    key, sealing = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    identity = Identity(federation, role, domain)
    return careless_context(authority.issue_gateway(identity, key, sealing, now or today()), key=key)


def of_no_authority(federation: str, domain: str) -> ssl.SSLContext:
    """TLS with a certificate that says the right name and was signed by itself."""
    return issued(Authority.make(federation, 1, today()), federation, domain)


def issued_by_a_gateway(keys: DomainKeys, federation: str, domain: str) -> ssl.SSLContext:
    """TLS with a certificate for another domain that a gateway has issued, as if it might."""
    (certificate,) = x509.load_pem_x509_certificates(keys.gateway_certificate.read_bytes())
    signer = own_key(keys)
    key = Ed25519PrivateKey.generate()
    now = today()
    forged = (
        x509.CertificateBuilder(
            subject_name=certificate.subject,
            issuer_name=certificate.subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(days=1),
        )
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.UniformResourceIdentifier(Identity(federation, Role.GATEWAY, domain).uri)]
            ),
            critical=False,
        )
        .sign(signer, None)
    )
    return careless_context(forged, certificate, key=key)


def of_a_gateway(keys: DomainKeys) -> ssl.SSLContext:
    """TLS with the keys of a gateway, as who has taken it over has them."""
    (certificate,) = x509.load_pem_x509_certificates(keys.gateway_certificate.read_bytes())
    return careless_context(certificate, key=own_key(keys))


def of_a_broker(keys: DomainKeys, broker: str) -> ssl.SSLContext:
    """TLS with the certificate of a broker, which the same authority has issued."""
    context = careless_context()
    context.load_cert_chain(keys.broker_certificate(broker), keys.broker_key(broker))
    return context


def own_key(keys: DomainKeys) -> Ed25519PrivateKey:
    """The key of a domain's gateway."""
    key = serialization.load_pem_private_key(keys.gateway_key.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    return key
