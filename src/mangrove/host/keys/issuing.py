"""Makes the files of one change: what an authority issues, and what goes with it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

import bcrypt
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mangrove.host.keys.certificates import Authority, certificate_pem, key_pem
from mangrove.host.keys.directory import ClientKeys, DomainKeys
from mangrove.host.keys.files.change import KeyChange
from mangrove.host.keys.logins.salted_hash import salted_sha256
from mangrove.host.keys.nkey import UserKey
from mangrove.model.security.identity import Identity, Role
from mangrove.model.security.users import DomainUsers, User

PASSWORD_BYTES = 24
HASH_COST = 5
"""The least effort or nearly so: 192 random bits are guessed by nobody, and brokers hash at each connection
(docs/decisions/0112-passwords-are-random-and-hashed-cheaply.md)."""

README = """\
The keys of the client {client} of {domain} in the federation {federation}.
Keep them as you would a password: who has them is {client}.

  user        its name, {client}: the folder itself may be called as you like
  client.nk   its NKEY (seed), for NATS clients
  password    its password, for MQTT, AMQP and STOMP, and for NATS clients without NKEYs; the user is {client}
  ca.pem      by whom brokers are certified: connect with TLS and check them against it
"""


class Issuer:
    """Issues with one authority into one change."""

    def __init__(self, federation: str, authority: Authority, change: KeyChange, now: datetime) -> None:
        self.federation = federation
        self.authority = authority
        self.change = change
        self.now = now

    def gateway(
        self,
        keys: DomainKeys,
        key: Ed25519PrivateKey | None = None,
        sealing: X25519PrivateKey | None = None,
    ) -> None:
        """Certify a gateway, with new keys unless it keeps one of those that it has."""
        key = key or Ed25519PrivateKey.generate()
        sealing = sealing or X25519PrivateKey.generate()
        identity = Identity(self.federation, Role.GATEWAY, keys.domain)
        certificate = self.authority.issue_gateway(identity, key, sealing, self.now)
        self.change.write(keys.gateway_key, key_pem(key))
        self.change.write(keys.sealing_key, key_pem(sealing))
        self.change.write(keys.gateway_certificate, certificate_pem(certificate))

    def broker(
        self,
        keys: DomainKeys,
        broker: str,
        addresses: Sequence[str],
        key: ec.EllipticCurvePrivateKey | None = None,
    ) -> None:
        """Certify a broker for the addresses at which it is found."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        identity = Identity(self.federation, Role.BROKER, keys.domain, broker)
        certificate = self.authority.issue_broker(identity, addresses, key, self.now)
        self.change.write(keys.broker_key(broker), key_pem(key))
        self.change.write(keys.broker_certificate(broker), certificate_pem(certificate))

    def user(self, keys: DomainKeys, name: str, role: Role) -> User:
        """Give a user of ours a new NKEY."""
        key = UserKey.make()
        self.change.write(keys.user_seed(name), f"{key.seed}\n".encode())
        return User(name=name, role=role.value, nkey=key.public)

    def client(self, keys: DomainKeys, name: str, role: str, trusted: Sequence[x509.Certificate]) -> User:
        """Give a client a new NKEY and a new password, with all else that it needs."""
        folder = keys.client(name)
        key = UserKey.make()
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        self.change.write(folder.user, f"{name}\n".encode())
        self.change.write(folder.seed, f"{key.seed}\n".encode())
        self.change.write(folder.password, f"{password}\n".encode())
        self.change.write(folder.trusted, certificate_pem(*trusted))
        self.change.write(folder.readme, self._readme(keys, folder))
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(HASH_COST)).decode()
        return User(
            name=name,
            role=role,
            client=True,
            nkey=key.public,
            password_hash=hashed,
            password_sha256=salted_sha256(password),
        )

    def users(self, keys: DomainKeys, users: DomainUsers) -> None:
        """Write down who may connect to the brokers of a domain."""
        self.change.write(keys.users, msgspec.json.format(msgspec.json.encode(users)))

    def _readme(self, keys: DomainKeys, folder: ClientKeys) -> bytes:
        return README.format(client=folder.name, domain=keys.domain, federation=self.federation).encode()
