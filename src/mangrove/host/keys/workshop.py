"""A key directory that is being changed: what is in it, and the authority that issues what is new."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path

import msgspec
from cryptography import x509

from mangrove.errors import InputError
from mangrove.host.keys.certificates import Authority, certificate_pem, key_pem, serial_of, today
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files.about import About, Replaced, read_about
from mangrove.host.keys.files.change import KeyChange, changing
from mangrove.host.keys.files.guarded_file import is_there
from mangrove.host.keys.files.key_files import domains_of, read_authority, read_certificates
from mangrove.host.keys.issuing import Issuer
from mangrove.host.keys.revocation import Revocations, read_revocations, signed
from mangrove.host.keys.ring import read_guests, read_users
from mangrove.model.security.users import DomainUsers


class Workshop:
    """One change. Everything that is asked of it is in force when its block ends well, and never was else."""

    def __init__(self, directory: KeyDirectory, about: About, change: KeyChange, now: datetime) -> None:
        self.directory = directory
        self.about = about
        self.change = change
        self.now = now
        self._users: dict[str, DomainUsers] = {}

    @cached_property
    def trusted(self) -> list[x509.Certificate]:
        """The authorities that are believed."""
        return read_certificates(self.directory.trusted, self.directory.path)

    @cached_property
    def revocations(self) -> Revocations:
        """What is no longer believed."""
        return read_revocations(self.directory, self.trusted, self.about.federation)

    @cached_property
    def issuer(self) -> Issuer:
        """What issues; InputError on a machine that has no authority."""
        if not is_there(self.directory.authority_key):
            raise InputError(
                f"{self.directory.path} has no authority, so nothing new can be issued there",
                hint="change keys on the machine where `mangrove keys init` made them, and export them again",
            )
        return self.issuer_with(read_authority(self.directory))

    def require_authority(self) -> Authority:
        """The authority that issues; InputError on a machine that has none."""
        return self.issuer.authority

    def issuer_with(self, authority: Authority) -> Issuer:
        """What issues with another authority."""
        return Issuer(self.about.federation, authority, self.change, self.now)

    def found(self) -> None:
        """Make the authority of a directory that has nothing yet."""
        authority = Authority.make(self.about.federation, self.about.authority, self.now)
        self.install(authority)
        self.trust([authority.certificate])
        self.revocations = Revocations(federation=self.about.federation)
        self.change.write(self.directory.revoked, signed(self.revocations, authority))

    def install(self, authority: Authority) -> None:
        """Let an authority issue from now on."""
        self.issuer = self.issuer_with(authority)
        self.change.write(self.directory.authority_key, key_pem(authority.key))
        self.change.write(self.directory.authority_certificate, certificate_pem(authority.certificate))

    def trust(self, authorities: Sequence[x509.Certificate]) -> None:
        """Believe these authorities, and no others."""
        self.trusted = list(authorities)
        self.change.write(self.directory.trusted, certificate_pem(*authorities))

    def revoke(self, certificates: dict[str, int], nkeys: Sequence[str]) -> None:
        """Believe these no longer: serial numbers with their ends, and NKEYs. The list is signed anew."""
        self.revocations = self.revocations.adding(certificates, nkeys, self.now.timestamp())
        self.change.write(self.directory.revoked, signed(self.revocations, self.issuer.authority))

    def has_revoked(self, certificate: x509.Certificate) -> bool:
        """Whether a certificate, and so its key, is no longer believed."""
        return serial_of(certificate) in self.revocations.serials

    def replace(self, domain: str, certificate: x509.Certificate) -> None:
        """Remember a certificate that has been replaced, so that it can be ended when nobody needs it."""
        ends_s = int(certificate.not_valid_after_utc.timestamp())
        replaced = Replaced(domain, serial_of(certificate), ends_s)
        self.about = msgspec.structs.replace(self.about, replaced=(*self.about.replaced, replaced))

    def write_users(self, keys: DomainKeys, users: DomainUsers) -> None:
        """Write down who may connect to the brokers of a domain."""
        self._users[keys.domain] = users
        self.issuer.users(keys, users)

    def write_guests(self) -> None:
        """Write down which clients go with others' domains, as their users are by now."""
        for host in {*self.about.guests, *(each.domain for each in self.domains() if is_there(each.guests))}:
            keys = self.directory.domain(host)
            guests = DomainUsers(
                users=tuple(
                    user.as_guest(home)
                    for home in sorted(self.about.guests.get(host, ()))
                    for user in self._users_of(home).users
                    if user.client
                )
            )
            content = msgspec.json.format(msgspec.json.encode(guests))
            if guests != read_guests(keys):
                self.change.write(keys.guests, content)

    def _users_of(self, domain: str) -> DomainUsers:
        keys = self.directory.domain(domain)
        if domain in self._users:
            return self._users[domain]
        return read_users(keys) if is_there(keys.users) else DomainUsers()

    def domains(self) -> list[DomainKeys]:
        """All domains that have keys, by name."""
        return domains_of(self.directory)

    def domain(self, name: str) -> DomainKeys:
        """One of them, or InputError."""
        keys = self.directory.domain(name)
        if not is_there(keys.users):
            known = ", ".join(each.domain for each in self.domains())
            raise InputError(
                f"there are no keys of a domain {name!r} in {self.directory.path}", hint=f"there are: {known}"
            )
        return keys


@contextlib.contextmanager
def opened(path: Path, now: datetime | None = None, federation: str = "") -> Iterator[Workshop]:
    """Change a key directory; the keys of `federation` are begun if there are none.

    A directory of another federation is refused.
    """
    directory = KeyDirectory(path)
    with changing(directory) as change:
        new = bool(federation) and not is_there(directory.about)
        about = About(federation=federation) if new else read_about(directory)
        if federation and about.federation != federation:
            raise InputError(
                f"{path} has the keys of the federation {about.federation}, not of {federation}",
                hint="name another directory with --keys",
            )
        workshop = Workshop(directory, about, change, now or today())
        if new:
            workshop.found()
        yield workshop
        if is_there(directory.authority_key) or new:
            workshop.write_guests()
        if change.is_needed:
            about = msgspec.structs.replace(workshop.about, generation=about.generation + 1)
            change.write(directory.about, msgspec.json.format(msgspec.json.encode(about)))
