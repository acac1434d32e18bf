"""Who may connect to the brokers of a domain: public halves alone, as they go into brokers' configuration."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mangrove.model.security.identity import Role

GATEWAY_USER = "gateway"
"""The gateway, where it attaches to data brokers, and at the management brokers."""
PROBE_USER = "probe"
"""The gateway's connections to data brokers as a client: probes, retained messages."""
EDGE_USER = "edge"
"""A data broker that attaches to the one before it."""
AGENT_USER = "agent"
HOST_USER = "host"
"""Who supervises a host."""
RECORDER_USER = "recorder"
"""The recorder, whose tap listens at data brokers."""
OPERATOR_USER = "operator"
"""Commands of who runs the domain."""

USER_ROLES = {
    GATEWAY_USER: Role.GATEWAY,
    PROBE_USER: Role.GATEWAY,
    EDGE_USER: Role.BROKER,
    AGENT_USER: Role.AGENT,
    HOST_USER: Role.HOST,
    RECORDER_USER: Role.HOST,
    OPERATOR_USER: Role.OPERATOR,
}
"""The users that every domain has besides its clients."""

FIRST_CLIENT = "client"
"""A client that every domain has from the beginning, so that one can be connected without being asked for."""
CLIENT_ROLE = "client"
"""A client's role, unless it is given one of its own."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """One user at the brokers of a domain; nothing in it is secret."""

    name: str
    role: str
    """Of ours, its `Role`; of a client, the role of which access rules speak."""
    client: bool = False
    nkey: str
    """Public half of its NKEY."""
    previous_nkey: str = ""
    """While its key is replaced: the one before, which is believed as well; else empty."""
    password_hash: str = ""
    """bcrypt; empty: it has no password."""
    password_sha256: str = ""
    """The same password for brokers that know no bcrypt; empty where it was made before there were any."""
    home: str = ""
    """Of a guest, the domain whose client it is; empty: it is of the domain itself."""

    @property
    def nkeys(self) -> tuple[str, ...]:
        """All NKEYs by which it may connect."""
        return (self.nkey, self.previous_nkey) if self.previous_nkey else (self.nkey,)

    def as_guest(self, home: str) -> User:
        """The same client at the brokers of another domain: by its NKEY alone, and under a name of its own.

        A hash of its password would help who has taken that domain over to guess it.
        """
        return User(
            name=guest_name(self.name, home),
            role=self.role,
            client=True,
            nkey=self.nkey,
            previous_nkey=self.previous_nkey,
            home=home,
        )

    @property
    def client_name(self) -> str:
        """How a client is called in its own domain."""
        return self.name.removesuffix(guest_name("", self.home)) if self.home else self.name


def guest_name(client: str, home: str) -> str:
    """What a client of one domain is called at the brokers of others; no client at home has such a name."""
    return f"{client}@{home}"


class DomainUsers(msgspec.Struct, frozen=True, kw_only=True):
    """All users of one domain, ours first."""

    users: tuple[User, ...] = ()

    def find(self, name: str) -> User | None:
        """The user of that name."""
        return next((user for user in self.users if user.name == name), None)

    def with_user(self, user: User) -> DomainUsers:
        """The same with one user added, or replaced in its place."""
        if self.find(user.name) is None:
            return DomainUsers(users=(*self.users, user))
        return DomainUsers(users=tuple(user if each.name == user.name else each for each in self.users))

    def without(self, name: str) -> DomainUsers:
        """The same without one user."""
        return DomainUsers(users=tuple(user for user in self.users if user.name != name))


def keys_only_replaced(before: Iterable[User], after: Iterable[User]) -> bool:
    """Whether NKEYs have ended, and all of them of users who have others: nobody was sent away for good."""
    now = {user.name: set(user.nkeys) for user in after}
    ended = [user for user in before if set(user.nkeys) - now.get(user.name, set())]
    return bool(ended) and all(set(user.nkeys) & now.get(user.name, set()) for user in ended)
