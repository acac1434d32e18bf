"""What is no longer believed: numbered, and signed by the authority, so that anyone can hand it on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from mangrove.errors import InputError
from mangrove.host.keys.certificates import IDENTITY_DAYS, Authority
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.guarded_file import RESTORE, read_guarded
from mangrove.model.unreadable import UNREADABLE

PREFIX = b"mangrove revocations 1\0"
DAY_S = 86_400


class Revocations(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates and keys, each with the time (seconds since 1970) from which it need not be listed."""

    federation: str
    number: int = 0
    """Counted up: a list with a smaller number is an old one."""
    serials: dict[str, int] = {}
    """Serial numbers of certificates, until they end by themselves."""
    nkeys: dict[str, int] = {}
    """NKEYs of users, for as long as a site may have an old list of its users and still be believed."""

    def adding(self, serials: dict[str, int], nkeys: Iterable[str], now_s: float) -> Revocations:
        """The next list, without what need not be listed any longer."""
        until = int(now_s + IDENTITY_DAYS * DAY_S)
        return Revocations(
            federation=self.federation,
            number=self.number + 1,
            serials=_lasting(self.serials, now_s) | serials,
            nkeys=_lasting(self.nkeys, now_s) | dict.fromkeys(nkeys, until),
        )


class SignedRevocations(msgspec.Struct, frozen=True):
    """The list as it is written down."""

    list: Revocations
    signature: str


def signed(revocations: Revocations, authority: Authority) -> bytes:
    """The content of the file."""
    signature = authority.key.sign(_statement(revocations), ec.ECDSA(hashes.SHA256()))
    written = SignedRevocations(revocations, base64.b64encode(signature).decode())
    return msgspec.json.format(msgspec.json.encode(written))


def read_revocations(
    directory: KeyDirectory, trusted: Iterable[x509.Certificate], federation: str
) -> Revocations:
    """The list of a key directory, if an authority that is believed has signed it."""
    path = directory.revoked
    content = read_guarded(path, directory.path)
    try:
        written = msgspec.json.decode(content, type=SignedRevocations)
        signature = base64.b64decode(written.signature, validate=True)
    except (*UNREADABLE, binascii.Error):
        raise InputError(f"{path} is not what `mangrove keys` wrote", hint=RESTORE) from None
    if written.list.federation != federation:
        raise InputError(
            f"{path} is of the federation {written.list.federation}, and should be of {federation}",
            hint=RESTORE,
        )
    statement = _statement(written.list)
    if not any(signed_by(each, statement, signature) for each in trusted):
        raise InputError(f"{path} is signed by no authority of this federation", hint=RESTORE)
    return written.list


def _lasting(listed: dict[str, int], now_s: float) -> dict[str, int]:
    return {name: end for name, end in listed.items() if end > now_s}


def _statement(revocations: Revocations) -> bytes:
    return PREFIX + msgspec.json.encode(revocations, order="deterministic")


def signed_by(authority: x509.Certificate, statement: bytes, signature: bytes) -> bool:
    """Whether an authority has signed a statement."""
    key = authority.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(signature, statement, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
