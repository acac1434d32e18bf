"""What is in a key directory, as far as others may know it: never a secret."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from cryptography import x509

from mangrove.host.keys.certificates import serial_of, today
from mangrove.host.keys.checking import brokers_on
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files.about import read_about
from mangrove.host.keys.files.change import complete_interrupted
from mangrove.host.keys.files.guarded_file import is_there
from mangrove.host.keys.files.key_files import brokers_of, domains_of, read_certificates
from mangrove.host.keys.revocation import Revocations, read_revocations
from mangrove.host.keys.ring import read_users
from mangrove.model.federation import Federation

WARN_DAYS = 60
"""So long before a certificate ends it is told."""
AUTHORITY = "authority"


class State(StrEnum):
    """Whether a certificate is believed, and for how long."""

    GOOD = "good"
    ENDS_SOON = "ends soon"
    EXPIRED = "expired"
    REVOKED = "revoked"


class CertificateReport(msgspec.Struct, frozen=True, kw_only=True):
    """One certificate of the directory."""

    domain: str
    """Empty: it is that of an authority."""
    name: str
    """`gateway`, a broker, or `authority`."""
    serial: str
    ends: datetime
    days_left: int
    state: State


class UserReport(msgspec.Struct, frozen=True, kw_only=True):
    """One user at the brokers of a domain."""

    domain: str
    name: str
    role: str
    client: bool
    nkey: str
    old_key_believed: bool
    revoked: bool


class KeysReport(msgspec.Struct, frozen=True, kw_only=True):
    """A whole key directory."""

    federation: str
    directory: str
    generation: int
    issues: bool
    """Whether the authority is here, so that keys can be issued."""
    authority_follows: bool
    """Whether a next authority is believed that does not issue yet."""
    overlapping: int
    """Certificates, keys and authorities that were replaced, and are believed until that is ended."""
    certificates: tuple[CertificateReport, ...]
    users: tuple[UserReport, ...]
    revocations: int
    """Number of the list of what was revoked."""
    revoked_certificates: int
    revoked_keys: int
    guests: dict[str, tuple[str, ...]] = {}
    """Sites whose brokers also let clients of others in, and of which."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What ends soon, has ended, or is believed by nobody, a sentence for each."""
        found = []
        for each in self.certificates:
            whose = f"the {each.name} of {each.domain}" if each.domain else "the authority"
            if each.state is State.EXPIRED:
                found.append(f"the certificate of {whose} has expired on {each.ends:%Y-%m-%d}")
            elif each.state is State.REVOKED:
                found.append(f"the certificate of {whose} was revoked; replace it: mangrove keys rotate")
            elif each.state is State.ENDS_SOON:
                found.append(
                    f"the certificate of {whose} ends on {each.ends:%Y-%m-%d}, in {each.days_left} days: "
                    "mangrove keys rotate"
                )
        return tuple(found)

    @property
    def good(self) -> bool:
        """Whether everybody is believed today."""
        return not any(each.state in (State.EXPIRED, State.REVOKED) for each in self.certificates)


def inspect_keys(path: Path, now: datetime | None = None) -> KeysReport:
    """Read a key directory as who runs the federation sees it. A change that was interrupted is completed."""
    directory = KeyDirectory(path)
    complete_interrupted(directory)
    about = read_about(directory)
    trusted = read_certificates(directory.trusted, path)
    revocations = read_revocations(directory, trusted, about.federation)
    reader = _Reader(directory, revocations, now or today())
    domains = domains_of(directory)
    certificates = [reader.report("", AUTHORITY, each) for each in trusted]
    users: list[UserReport] = []
    previous_seals = 0
    for keys in domains:
        certificates += reader.certificates(keys)
        users += reader.users(keys)
        previous_seals += is_there(keys.previous_sealing_key)
    follows = is_there(directory.next_authority_key)
    return KeysReport(
        federation=about.federation,
        directory=str(path),
        generation=about.generation,
        issues=is_there(directory.authority_key),
        authority_follows=follows,
        overlapping=len(about.replaced)
        + sum(user.old_key_believed for user in users)
        + previous_seals
        + (0 if follows else len(trusted) - 1),
        certificates=tuple(certificates),
        users=tuple(users),
        revocations=revocations.number,
        revoked_certificates=len(revocations.serials),
        revoked_keys=len(revocations.nkeys),
        guests=about.guests,
    )


def differences(report: KeysReport, federation: Federation) -> Iterator[str]:
    """Where the keys are not those of a federation file that has changed since, a sentence for each.

    On the machine of a single site, the keys of others are not missing.
    """
    found: dict[str, set[str]] = {}
    for each in report.certificates:
        found.setdefault(each.domain, set()).add(each.name)
    for name, domain in federation.domains.items():
        missing = set(brokers_on(domain, None)) - found.get(name, set())
        if name not in found and report.issues:
            yield f"{name} has no keys yet: mangrove keys init"
        elif missing and report.issues:
            have = "has" if len(missing) == 1 else "have"
            yield f"{', '.join(sorted(missing))} of {name} {have} no keys yet: mangrove keys init"
        strange = set(domain.accept_load_from) - set(report.guests.get(name, ()))
        if name in found and strange and report.issues:
            yield f"{name} does not know the clients of {', '.join(sorted(strange))} yet: mangrove keys init"
    revoked = {each.domain for each in report.certificates if each.state is State.REVOKED}
    for name in sorted(set(found) - {"", *federation.domains} - revoked):
        yield f"the file has no domain {name}, whose keys are believed: mangrove keys revoke --domain {name}"


class _Reader:
    def __init__(self, directory: KeyDirectory, revocations: Revocations, now: datetime) -> None:
        self._root = directory.path
        self._revocations = revocations
        self._now = now

    def certificates(self, keys: DomainKeys) -> list[CertificateReport]:
        """Those of one domain."""
        files = {"gateway": keys.gateway_certificate} if is_there(keys.gateway_certificate) else {}
        files |= {broker: keys.broker_certificate(broker) for broker in brokers_of(keys)}
        return [
            self.report(keys.domain, name, read_certificates(path, self._root)[0])
            for name, path in files.items()
        ]

    def users(self, keys: DomainKeys) -> list[UserReport]:
        """Those of one domain."""
        return [
            UserReport(
                domain=keys.domain,
                name=user.name,
                role=user.role,
                client=user.client,
                nkey=user.nkey,
                old_key_believed=bool(user.previous_nkey),
                revoked=user.nkey in self._revocations.nkeys,
            )
            for user in read_users(keys).users
        ]

    def report(self, domain: str, name: str, certificate: x509.Certificate) -> CertificateReport:
        """One certificate."""
        serial, ends = serial_of(certificate), certificate.not_valid_after_utc
        days_left = (ends - self._now).days
        state = State.GOOD if days_left >= WARN_DAYS else State.ENDS_SOON
        if serial in self._revocations.serials:
            state = State.REVOKED
        elif ends < self._now:
            state = State.EXPIRED
        return CertificateReport(
            domain=domain, name=name, serial=serial, ends=ends, days_left=days_left, state=state
        )
