"""Keys and certificates as they are read from a key directory: whole, and belonging together."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mangrove.errors import InputError
from mangrove.host.keys.certificates import Authority, addresses_of, identity_of, sealing_key_in
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files.guarded_file import RESTORE, is_there, read_guarded
from mangrove.host.keys.nkey import UserKey
from mangrove.model.security.identity import Identity, Role

PEM_END = b"-----END PRIVATE KEY-----\n"


def read_certificates(path: Path, root: Path) -> list[x509.Certificate]:
    """The certificates in a file, at least one."""
    try:
        return x509.load_pem_x509_certificates(read_guarded(path, root))
    except ValueError:
        raise InputError(f"{path} holds no whole certificate", hint=RESTORE) from None


def read_authority(directory: KeyDirectory) -> Authority:
    """What issues; InputError where it is not, as on the machines of single sites."""
    return _read_authority(directory, directory.authority_key, directory.authority_certificate)


def read_next_authority(directory: KeyDirectory) -> Authority:
    """What will issue."""
    return _read_authority(directory, directory.next_authority_key, directory.next_authority_certificate)


def read_gateway_key(path: Path, root: Path) -> Ed25519PrivateKey:
    """The key of a gateway."""
    key = _read_key(path, root)
    if not isinstance(key, Ed25519PrivateKey):
        raise _wrong_kind(path)
    return key


def read_sealing_key(path: Path, root: Path) -> X25519PrivateKey:
    """The key that opens what is sealed for a domain."""
    key = _read_key(path, root)
    if not isinstance(key, X25519PrivateKey):
        raise _wrong_kind(path)
    return key


def read_previous_sealing_keys(keys: DomainKeys) -> tuple[X25519PrivateKey, ...]:
    """Those before, the newest first; none when nothing was replaced, or that was ended."""
    path, root = keys.previous_sealing_key, keys.directory.path
    if not is_there(path):
        return ()
    found = []
    for text in read_guarded(path, root).split(PEM_END)[:-1]:
        key = _loaded(text + PEM_END, path)
        if not isinstance(key, X25519PrivateKey):
            raise _wrong_kind(path)
        found.append(key)
    return tuple(found)


def read_gateway(
    keys: DomainKeys, federation: str
) -> tuple[Ed25519PrivateKey, X25519PrivateKey, x509.Certificate]:
    """Key, sealing key and certificate of a domain's gateway, which belong together."""
    root = keys.directory.path
    key = read_gateway_key(keys.gateway_key, root)
    sealing = read_sealing_key(keys.sealing_key, root)
    certificate = read_certificates(keys.gateway_certificate, root)[0]
    check_name(certificate, keys.gateway_certificate, Identity(federation, Role.GATEWAY, keys.domain))
    if certificate.public_key() != key.public_key():
        raise _not_together(keys.gateway_key, keys.gateway_certificate)
    try:
        public = sealing_key_in(certificate)
    except ValueError as problem:
        raise InputError(f"{keys.gateway_certificate} is of no use: {problem}", hint=RESTORE) from None
    if public != sealing.public_key().public_bytes_raw():
        raise _not_together(keys.sealing_key, keys.gateway_certificate)
    return key, sealing, certificate


def read_broker(
    keys: DomainKeys, broker: str, federation: str
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate, tuple[str, ...]]:
    """Key, certificate and addresses of a broker."""
    root = keys.directory.path
    key = _read_key(keys.broker_key(broker), root)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _wrong_kind(keys.broker_key(broker))
    path = keys.broker_certificate(broker)
    certificate = read_certificates(path, root)[0]
    check_name(certificate, path, Identity(federation, Role.BROKER, keys.domain, broker))
    if certificate.public_key() != key.public_key():
        raise _not_together(keys.broker_key(broker), path)
    return key, certificate, addresses_of(certificate)


def read_user_key(path: Path, root: Path) -> UserKey:
    """The secret half of a user's NKEY."""
    try:
        return UserKey.from_seed(read_guarded(path, root).decode().strip())
    except ValueError as problem:
        raise InputError(f"{path} holds no seed of a user: {problem}", hint=RESTORE) from None


def check_name(certificate: x509.Certificate, path: Path, expected: Identity) -> None:
    """Refuse a certificate that is about somebody else."""
    try:
        found = identity_of(certificate)
    except ValueError as problem:
        raise InputError(f"{path} is of no use: {problem}", hint=RESTORE) from None
    if found != expected:
        raise InputError(f"{path} is about {found}, and should be about {expected}", hint=RESTORE)


def _read_authority(directory: KeyDirectory, key_path: Path, certificate_path: Path) -> Authority:
    key = _read_key(key_path, directory.path)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _wrong_kind(key_path)
    certificate = read_certificates(certificate_path, directory.path)[0]
    if certificate.public_key() != key.public_key():
        raise _not_together(key_path, certificate_path)
    return Authority(key, certificate)


def _read_key(path: Path, root: Path) -> object:
    return _loaded(read_guarded(path, root), path)


def _loaded(pem: bytes, path: Path) -> object:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their texts may quote the file
        raise InputError(f"{path} holds no whole key", hint=RESTORE) from None


def _wrong_kind(path: Path) -> InputError:
    return InputError(f"{path} holds a key of another kind", hint=RESTORE)


def _not_together(key: Path, certificate: Path) -> InputError:
    return InputError(f"{key} does not belong to {certificate.name} beside it", hint=RESTORE)


def domains_of(directory: KeyDirectory) -> list[DomainKeys]:
    """All domains that have keys in a directory, by name."""
    folder = directory.domains
    return [directory.domain(path.name) for path in sorted(folder.iterdir())] if is_there(folder) else []


def brokers_of(keys: DomainKeys) -> list[str]:
    """The brokers of a domain that have keys, by name."""
    return sorted(path.stem for path in keys.brokers.glob("*.key")) if is_there(keys.brokers) else []
