"""What the brokers of a domain are secured with, by its key directory, read again when that changes."""

from __future__ import annotations

from mangrove.broker.security import BrokerSecurity, Rights, Subjects
from mangrove.host.keys.login import LoginSource
from mangrove.host.keys.logins.user_login import login_of
from mangrove.model.access.permissions import EVERYTHING, PatternLists, permissions_of
from mangrove.model.access.rules import Principal
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.federation import Federation
from mangrove.model.security.users import EDGE_USER, HOST_USER, User


class BrokerKeys:
    """The keys of one domain at one moment, and which part of them each of its brokers needs."""

    def __init__(self, folder: str, federation: Federation, domain: str) -> None:
        """InputError if the keys in the folder are missing, damaged or open to others."""
        self._federation = federation
        self._domain = domain
        from mangrove.host.keys.ring import KeyRing  # loads what only a secured domain needs

        self._ring = KeyRing.read(folder)
        login = login_of(folder, HOST_USER)
        assert login is not None
        self.login: LoginSource = login
        """Who a host is at the brokers of the domain."""

    @property
    def generation(self) -> int:
        """Counted up with every change."""
        return self._ring.generation

    def changed(self) -> bool:
        """Whether there are other keys by now."""
        return self._ring.changed()

    def renew(self) -> None:
        """Take over the keys as they are now; InputError, and those of before stay, if they are not whole."""
        self._ring = self._ring.renewed()

    def nkeys(self) -> frozenset[str]:
        """All keys by which anybody may connect."""
        return frozenset(nkey for user in self._ring.users() for nkey in user.nkeys)

    def name_of(self, nkey: str) -> str:
        """Who connects by a key; the key itself if it is nobody's, or nobody's any more."""
        return next((user.name for user in self._ring.users() if nkey in user.nkeys), nkey)

    def of(self, broker: BrokerEndpoints, *, attaches: bool) -> BrokerSecurity:
        """What one broker is secured with; `attaches`: to another broker of the domain."""
        keys, users = self._ring.keys, self._ring.users()
        edge = self._ring.login(EDGE_USER).key if attaches else None
        return BrokerSecurity(
            federation=self._federation.name,
            domain=self._domain,
            domains=tuple(self._federation.domains),
            certificate=keys.broker_certificate(broker.name),
            key=keys.broker_key(broker.name),
            authorities=keys.directory.trusted,
            users=users,
            rights={user.name: self._rights(user) for user in users if user.client},
            seed="" if edge is None else edge.seed,
        )

    def _rights(self, user: User) -> Rights:
        """What the access rules leave to a client."""
        principal = Principal(domain=self._domain, client=user.name, role=user.role)
        found = permissions_of(self._federation.access, principal)
        return Rights(_subjects(found.publish), _subjects(found.subscribe))


def _subjects(lists: PatternLists) -> Subjects:
    return Subjects(None if EVERYTHING in lists.allow else lists.allow, lists.deny)
