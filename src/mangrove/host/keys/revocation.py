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
from mangrove.host.keys.certificates import Authority
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.guarded_file import RESTORE, read_guarded

PREFIX = b"mangrove revocations 1\0"


class Revocations(msgspec.Struct, frozen=True, kw_only=True):
    """Serial numbers of certificates, each with when it ends anyway (in seconds since 1970), and NKEYs."""

    federation: str
    number: int = 0
    """Counted up: a list with a smaller number is an old one."""
    serials: dict[str, int] = {}
    nkeys: tuple[str, ...] = ()

    def adding(self, serials: dict[str, int], nkeys: Iterable[str], now_s: float) -> Revocations:
        """The next list: what ends by itself need not be listed any longer."""
        kept = {serial: end for serial, end in self.serials.items() if end > now_s}
        return Revocations(
            federation=self.federation,
            number=self.number + 1,
            serials=kept | serials,
            nkeys=tuple(dict.fromkeys((*self.nkeys, *nkeys))),
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
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error):
        raise InputError(f"{path} is not what `mangrove keys` wrote", hint=RESTORE) from None
    if written.list.federation != federation:
        raise InputError(
            f"{path} is of the federation {written.list.federation}, and should be of {federation}",
            hint=RESTORE,
        )
    statement = _statement(written.list)
    if not any(_signed_by(each, statement, signature) for each in trusted):
        raise InputError(f"{path} is signed by no authority of this federation", hint=RESTORE)
    return written.list


def _statement(revocations: Revocations) -> bytes:
    return PREFIX + msgspec.json.encode(revocations, order="deterministic")


def _signed_by(authority: x509.Certificate, statement: bytes, signature: bytes) -> bool:
    key = authority.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(signature, statement, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
