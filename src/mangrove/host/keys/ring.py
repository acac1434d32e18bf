"""The keys that the processes of one domain hold, and whom they believe."""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mangrove.errors import InputError, UntrustedError
from mangrove.host.keys.approval import approval_problem
from mangrove.host.keys.certificates import certificate_pem, key_pem, serial_of
from mangrove.host.keys.directory import DomainKeys
from mangrove.host.keys.files.about import About, read_about
from mangrove.host.keys.files.guarded_file import RESTORE, is_there, read_guarded
from mangrove.host.keys.files.key_files import (
    read_certificates,
    read_gateway,
    read_previous_sealing_keys,
    read_user_key,
)
from mangrove.host.keys.login import BrokerLogin
from mangrove.host.keys.revocation import read_revocations
from mangrove.host.keys.shared_keys import shared_key
from mangrove.host.keys.trust import STATEMENT, Trust
from mangrove.model.security.identity import NAME, Identity
from mangrove.model.security.users import USER_ROLES, DomainUsers, User
from mangrove.model.unreadable import UNREADABLE

MAX_LOOKS, LOOK_AGAIN_S = 20, 0.05


class Connection(Protocol):
    """What is asked of an `ssl.SSLObject` or `ssl.SSLSocket`."""

    def getpeercert(self, binary_form: bool, /) -> object:
        """The certificate that the other side has shown."""


class GatewayKeys(msgspec.Struct, frozen=True):
    """What only the gateway of a domain holds."""

    key: Ed25519PrivateKey
    sealing: tuple[X25519PrivateKey, ...]
    """The newest first."""
    certificate_pem: bytes
    credential: bytes


class KeyRing:
    """All keys of one domain as they were at one moment. When they change, read another one."""

    def __init__(
        self,
        keys: DomainKeys,
        about: About,
        trust: Trust,
        users: DomainUsers,
        gateway: GatewayKeys | None,
        seen: tuple[object, ...],
        guests: DomainUsers,
    ) -> None:
        self.keys = keys
        self.about = about
        self.trust = trust
        self._users = users
        self._gateway = gateway
        self._seen = seen
        self._guests = guests

    @classmethod
    def read(cls, path: Path | str, *, clock: Callable[[], float] = time.time) -> KeyRing:
        """The keys in the folder of a domain; InputError says what is wrong where, and what helps."""
        keys = DomainKeys(Path(path))
        for _ in range(MAX_LOOKS):
            seen = _look(keys)
            try:
                return cls._read(keys, clock, seen)
            except InputError:
                if _look(keys) == seen and not is_there(keys.directory.pending):
                    raise
            time.sleep(LOOK_AGAIN_S)  # somebody changes them at this moment
        raise InputError(
            f"a change of the keys in {keys.directory.path} was interrupted",
            hint="complete it with `mangrove keys show`",
        )

    @classmethod
    def _read(cls, keys: DomainKeys, clock: Callable[[], float], seen: tuple[object, ...]) -> KeyRing:
        root = keys.directory.path
        about = read_about(keys.directory)
        authorities = read_certificates(keys.directory.trusted, root)
        revocations = read_revocations(keys.directory, authorities, about.federation)
        trust = Trust(about.federation, authorities, revocations, clock)
        users = read_users(keys)
        gateway = _read_gateway(keys, about.federation, trust)
        return cls(keys, about, trust, users, gateway, seen, read_guests(keys))

    def changed(self) -> bool:
        """Whether the files are no longer those that were read. Looks at three files and reads none."""
        return _look(self.keys) != self._seen

    def renewed(self) -> KeyRing:
        """The keys as they are now; InputError if they are not whole, or older than these."""
        ring = KeyRing.read(self.keys.path, clock=self.trust.clock)
        mine, theirs = self.trust.revocations.number, ring.trust.revocations.number
        if theirs < mine:
            raise InputError(
                f"{self.keys.directory.revoked} is older than before (number {theirs} after {mine})",
                hint=RESTORE,
            )
        return ring

    # -- who we are ---------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The folder of the domain."""
        return self.keys.path

    @property
    def generation(self) -> int:
        """Counted up with every change of the directory."""
        return self.about.generation

    @property
    def identity(self) -> Identity:
        """Who the gateway of this domain is."""
        return self.trust.credential(self.credential).identity

    @property
    def credential(self) -> bytes:
        """The gateway's certificate, as it goes with what it signs."""
        return self._own.credential

    @property
    def sealing(self) -> X25519PrivateKey:
        """What opens messages sealed for this domain, and seals those from it."""
        return self._own.sealing[0]

    @property
    def sealings(self) -> tuple[X25519PrivateKey, ...]:
        """The same, and after it those before, for which messages under way may be sealed."""
        return self._own.sealing

    def sign(self, statement: bytes) -> bytes:
        """What only the gateway of this domain can write: 64 bytes."""
        return self._own.key.sign(STATEMENT + statement)

    def shared_keys(self, credential: bytes) -> tuple[bytes, ...]:
        """Keys that only this domain and that of a certificate have: by the present sealing key, and by the
        one before it. None if the certificate is not believed."""
        try:
            other = self.sealing_key_of(credential)
        except UntrustedError:
            return ()
        return tuple(shared_key(own, other) for own in self.sealings)

    # -- whom we believe ----------------------------------------------------------------------------------

    def peer(self, connection: Connection) -> Identity:
        """Who is at the other end of an encrypted connection; UntrustedError with the reason."""
        der = connection.getpeercert(True)
        if not isinstance(der, bytes):
            raise UntrustedError("it has shown no certificate")
        return self.trust.credential(der).identity

    def still_trusted(self, der: bytes) -> str:
        """Why the gateway with this certificate is not believed (any more); empty: it is."""
        try:
            self.trust.credential(der)
        except UntrustedError as error:
            return error.reason
        return ""

    def verify(self, origin_domain: str, statement: bytes, signature: bytes, credential: bytes) -> str:
        """Why a statement is not that of a domain's gateway; empty: it is."""
        try:
            found = self.trust.credential(credential)
        except UntrustedError as error:
            return error.reason
        if found.identity.domain != origin_domain:
            return f"it is signed by {found.identity.domain}"
        return "" if found.verifies(statement, signature) else "its signature is wrong"

    def approved(self, text: bytes, signature: bytes) -> str:
        """Empty if an authority of this federation has signed a federation document; else what is wrong."""
        return approval_problem(text, signature, self.trust.authorities)

    def sealing_key_of(self, credential: bytes) -> bytes:
        """The public sealing key, 32 bytes, of the domain with this certificate; or UntrustedError."""
        return self.trust.credential(credential).sealing

    # -- links --------------------------------------------------------------------------------------------

    def server_context(self) -> ssl.SSLContext:
        """For the side of a link that listens: TLS 1.3, and who calls shows a certificate, too."""
        return self._mutual(ssl.PROTOCOL_TLS_SERVER)

    def client_context(self) -> ssl.SSLContext:
        """For the side of a link that calls. Who answers is judged by `peer`, not by its address."""
        return self._mutual(ssl.PROTOCOL_TLS_CLIENT)

    def _mutual(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self._trusted_pem)
        _load_chain(context, self._own.certificate_pem + key_pem(self._own.key))
        return context

    # -- brokers ------------------------------------------------------------------------------------------

    def authority_context(self) -> ssl.SSLContext:
        """For clients of this domain's brokers: these show a certificate for the address that is called."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=self._trusted_pem)
        return context

    def login(self, user: str) -> BrokerLogin:
        """How a user of ours, or else a client whose folder is here, shows the brokers who it is."""
        if not NAME.fullmatch(user):
            raise InputError(f"{user!r} is no name of a user", hint="`mangrove keys show` names them all")
        of_ours = user in USER_ROLES
        path = self.keys.user_seed(user) if of_ours else self.keys.client(user).seed
        key = read_user_key(path, self.keys.directory.path)
        return BrokerLogin(user=user, tls=self.authority_context(), nkey=key.public, key=key)

    def users(self) -> tuple[User, ...]:
        """Who may connect to the brokers of this domain: nobody who was revoked."""
        return self._believed(self._users)

    def guests(self) -> tuple[User, ...]:
        """Clients of other domains who may connect to them as well: nobody who was revoked."""
        return self._believed(self._guests)

    def _believed(self, users: DomainUsers) -> tuple[User, ...]:
        found = []
        for user in users.users:
            if not self.trust.believes_nkey(user.nkey):
                continue
            if user.previous_nkey and not self.trust.believes_nkey(user.previous_nkey):
                user = msgspec.structs.replace(user, previous_nkey="")
            found.append(user)
        return tuple(found)

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _own(self) -> GatewayKeys:
        if self._gateway is None:
            raise InputError(f"{self.keys.gateway_key} is missing", hint=RESTORE)
        return self._gateway

    @cached_property
    def _trusted_pem(self) -> str:
        return certificate_pem(*self.trust.authorities).decode()

    def __repr__(self) -> str:
        return f"KeyRing({str(self.path)!r}, generation {self.generation})"


def read_users(keys: DomainKeys) -> DomainUsers:
    """The users of a domain, those included who were revoked since."""
    try:
        return msgspec.json.decode(read_guarded(keys.users, keys.directory.path), type=DomainUsers)
    except UNREADABLE:
        raise InputError(f"{keys.users} is not what `mangrove keys` wrote", hint=RESTORE) from None


def read_guests(keys: DomainKeys) -> DomainUsers:
    """The guests of a domain; none, where none were ever let in."""
    if not is_there(keys.guests):
        return DomainUsers()
    try:
        found = msgspec.json.decode(read_guarded(keys.guests, keys.directory.path), type=DomainUsers)
    except UNREADABLE:
        raise InputError(f"{keys.guests} is not what `mangrove keys` wrote", hint=RESTORE) from None
    for user in found.users:
        if user != user_as_guest(user):
            raise InputError(f"{keys.guests} names {user.name!r}, who is no guest", hint=RESTORE)
    return found


def user_as_guest(user: User) -> User:
    """What a guest may be at most, whatever the file says of it."""
    return msgspec.structs.replace(user, name=user.client_name).as_guest(user.home)


def _read_gateway(keys: DomainKeys, federation: str, trust: Trust) -> GatewayKeys | None:
    """The gateway's keys; None on a host that runs no gateway and was given none."""
    mine = (keys.gateway_key, keys.gateway_certificate, keys.sealing_key)
    if not any(map(is_there, mine)):
        return None
    key, sealing, certificate = read_gateway(keys, federation)
    previous = read_previous_sealing_keys(keys)
    credential = certificate.public_bytes(serialization.Encoding.DER)
    try:
        trust.credential(credential)
    except UntrustedError as error:
        raise InputError(
            f"{keys.gateway_certificate} (serial {serial_of(certificate)}) would be believed by nobody: "
            f"{error.reason}",
            hint="replace it where the authority is, with `mangrove keys rotate`, and export it again",
        ) from None
    return GatewayKeys(key, (sealing, *previous), certificate_pem(certificate), credential)


def _look(keys: DomainKeys) -> tuple[object, ...]:
    """What tells the files of one moment from those of another, without reading them."""
    found: list[object] = []
    for path in keys.directory.watched:
        try:
            status = path.lstat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size))
    return tuple(found)


def _load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """Give a context key and certificate as they were checked, whatever has become of the files since.

    The library takes them from a file alone: one that is in memory where that is possible.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("keys", os.MFD_CLOEXEC), "wb") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
