"""The files of a key directory: every path in it is made here. Nothing is read or written."""

from __future__ import annotations

from pathlib import Path

import msgspec


class KeyDirectory(msgspec.Struct, frozen=True):
    """Where the keys of a federation are: all of them with who runs it, those of one site elsewhere."""

    path: Path

    @property
    def about(self) -> Path:
        """Whose keys they are, and which generation: written last, so that it tells of all changes."""
        return self.path / "keys.json"

    @property
    def lock(self) -> Path:
        """Held by who changes keys."""
        return self.path / "lock"

    @property
    def pending(self) -> Path:
        """The folder of a change that is not in force yet."""
        return self.path / "pending"

    @property
    def authority_key(self) -> Path:
        """What everything is issued with; only with who runs the federation."""
        return self.path / "authority" / "key.pem"

    @property
    def authority_certificate(self) -> Path:
        """The public half of the authority."""
        return self.path / "authority" / "certificate.pem"

    @property
    def next_authority_key(self) -> Path:
        """An authority that is believed already and issues nothing yet."""
        return self.path / "authority" / "next.key.pem"

    @property
    def next_authority_certificate(self) -> Path:
        """Its public half."""
        return self.path / "authority" / "next.certificate.pem"

    @property
    def trusted(self) -> Path:
        """Certificates of the authorities that are believed: two while one replaces the other."""
        return self.path / "trusted.pem"

    @property
    def revoked(self) -> Path:
        """What is no longer believed, signed by the authority."""
        return self.path / "revoked.json"

    @property
    def watched(self) -> tuple[Path, ...]:
        """By which those who run see that something has changed, in the order in which they are written."""
        return (self.trusted, self.revoked, self.about)

    @property
    def domains(self) -> Path:
        """The folder of all domains."""
        return self.path / "domains"

    def domain(self, domain: str) -> DomainKeys:
        """The files of one domain."""
        return DomainKeys(self.domains / domain)


class DomainKeys(msgspec.Struct, frozen=True):
    """The folder of one domain in a key directory: all that its processes are told is where it is."""

    path: Path

    @property
    def domain(self) -> str:
        """Whose keys they are."""
        return self.path.name

    @property
    def directory(self) -> KeyDirectory:
        """The directory around it."""
        return KeyDirectory(self.path.parent.parent)

    @property
    def gateway_certificate(self) -> Path:
        """Who the gateway is, with the public half of the sealing key."""
        return self.path / "gateway.pem"

    @property
    def gateway_key(self) -> Path:
        """The gateway's key, for links and for what it signs."""
        return self.path / "gateway.key"

    @property
    def sealing_key(self) -> Path:
        """What opens messages that are sealed for this domain."""
        return self.path / "sealing.key"

    @property
    def previous_sealing_key(self) -> Path:
        """Those before, while messages that are sealed for them may still arrive; the newest first."""
        return self.path / "sealing.previous.key"

    @property
    def brokers(self) -> Path:
        """The folder of the brokers' keys."""
        return self.path / "brokers"

    def broker_certificate(self, broker: str) -> Path:
        """Who a broker is, for its clients."""
        return self.brokers / f"{broker}.pem"

    def broker_key(self, broker: str) -> Path:
        """A broker's key."""
        return self.brokers / f"{broker}.key"

    @property
    def users(self) -> Path:
        """Who may connect to the brokers of the domain: public halves alone."""
        return self.path / "users.json"

    @property
    def guests(self) -> Path:
        """Clients of other domains whom its brokers let in: public halves alone."""
        return self.path / "guests.json"

    def user_seed(self, user: str) -> Path:
        """The secret half of a user of ours."""
        return self.path / "users" / f"{user}.nk"

    @property
    def clients(self) -> Path:
        """The folder of the clients' keys."""
        return self.path / "clients"

    def client(self, client: str) -> ClientKeys:
        """The files that one client is given."""
        return ClientKeys(self.clients / client)


class ClientKeys(msgspec.Struct, frozen=True):
    """The folder that a client is given: it needs nothing else to connect."""

    path: Path

    @property
    def name(self) -> str:
        """Whose it is, where it was made; who was handed it may have given the folder another name."""
        return self.path.name

    @property
    def user(self) -> Path:
        """Its name, as which it connects."""
        return self.path / "user"

    @property
    def seed(self) -> Path:
        """The secret half of its NKEY."""
        return self.path / "client.nk"

    @property
    def password(self) -> Path:
        """Its password, for MQTT and for whoever has no NKEYs."""
        return self.path / "password"

    @property
    def trusted(self) -> Path:
        """By whom brokers are certified."""
        return self.path / "ca.pem"

    @property
    def readme(self) -> Path:
        """How to connect with these files."""
        return self.path / "README"
