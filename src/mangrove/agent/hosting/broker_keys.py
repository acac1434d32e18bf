"""What the brokers of a domain are secured with, by its key directory, read again when that changes."""

from __future__ import annotations

from mangrove.broker.security import BrokerSecurity, Rights, Subjects
from mangrove.host.keys.login import LoginSource
from mangrove.host.keys.logins.user_login import login_of
from mangrove.model.access.permissions import EVERYTHING, PatternLists, permissions_of
from mangrove.model.access.rules import Principal
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.federation import Federation
from mangrove.model.names.domain_names import DomainNames
from mangrove.model.names.local_view import names_of
from mangrove.model.security.users import EDGE_USER, GATEWAY_USER, HOST_USER, User, keys_only_replaced


class BrokerKeys:
    """The keys of one domain at one moment, and which part of them each of its brokers needs."""

    only_replaced = False
    """Whether, when they were taken over last, keys ended of nobody but who has others by now."""

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

    def keep_to(self, federation: Federation) -> bool:
        """Leave to clients what the access rules of this one do, by its names, and let in guests of the
        domains whose load it takes; whether that is otherwise than before."""
        now, before = federation.domains[self._domain], self._federation.domains[self._domain]
        changed = (
            federation.access != self._federation.access
            or now.accept_load_from != before.accept_load_from
            or now.names != before.names
        )
        self._federation = federation
        return changed

    @property
    def generation(self) -> int:
        """Counted up with every change."""
        return self._ring.generation

    def changed(self) -> bool:
        """Whether there are other keys by now."""
        return self._ring.changed()

    def renew(self) -> None:
        """Take over the keys as they are now; InputError, and those of before stay, if they are not whole."""
        before, self._ring = self._users(), self._ring.renewed()
        self.only_replaced = keys_only_replaced(before, self._users())

    def _users(self) -> tuple[User, ...]:
        """All who may connect: those of the domain, and clients of the domains whose load it takes."""
        homes = self._federation.domains[self._domain].accept_load_from
        return (*self._ring.users(), *(each for each in self._ring.guests() if each.home in homes))

    def nkeys(self) -> frozenset[str]:
        """All keys by which anybody may connect."""
        return frozenset(nkey for user in self._users() for nkey in user.nkeys)

    @property
    def gateway_nkey(self) -> str:
        """By which a gateway proves what it says."""
        return next((user.nkey for user in self._users() if user.name == GATEWAY_USER), "")

    def client_of(self, shown: str) -> str:
        """Which client connects by a key, or a name and a password; empty if it is none of them."""
        for user in self._users():
            if user.client and (shown in user.nkeys or shown == user.name):
                return user.name
        return ""

    def replaced_clients(self) -> dict[str, str]:
        """Clients whose keys were replaced, by the key of before, while that is believed as well."""
        return {user.previous_nkey: user.name for user in self._users() if user.client and user.previous_nkey}

    def name_of(self, nkey: str) -> str:
        """Who connects by a key; the key itself if it is nobody's, or nobody's any more."""
        return next((user.name for user in self._users() if nkey in user.nkeys), nkey)

    def of(self, broker: BrokerEndpoints, *, attaches: bool) -> BrokerSecurity:
        """What one broker is secured with; `attaches`: to another broker of the domain."""
        keys, users = self._ring.keys, self._users()
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
            gateway_seed="" if broker.kind is BrokerKind.NATS else self._gateway_seed(),
        )

    def _gateway_seed(self) -> str:
        key = self._ring.login(GATEWAY_USER).key
        assert key is not None, "users of ours have NKEYs"
        return key.seed

    def _rights(self, user: User) -> Rights:
        """What the access rules leave to a client."""
        home = user.home or self._domain
        principal = Principal(domain=home, client=user.client_name, role=user.role)
        found = permissions_of(self._federation.access, principal)
        names = names_of(self._federation, self._domain)
        return Rights(_subjects(found.publish, names), _subjects(found.subscribe, names))


def _subjects(lists: PatternLists, names: DomainNames | None) -> Subjects:
    """Rules speak the federation's names, clients those of the domain."""
    allow, deny = lists.allow, lists.deny
    if names is not None:
        allow = tuple(dict.fromkeys(each for pattern in allow for each in names.allowed_here(pattern)))
        deny = tuple(dict.fromkeys(each for pattern in deny for each in names.called_here(pattern)))
    return Subjects(None if EVERYTHING in allow else allow, deny)
