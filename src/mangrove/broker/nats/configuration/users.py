"""Users of a nats-server: by which key or password they come, by what connections, and their rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mangrove.broker.nats.configuration.syntax import listing, quoted
from mangrove.broker.security import Rights, Subjects
from mangrove.model.security.users import User

LEAF = "LEAFNODE"
PLAIN = "STANDARD"
MQTT = "MQTT"

_NOTHING = "_NOTHING"
"""nats-server takes an empty list for no list at all; nobody ever publishes on this one subject."""


def key_users(user: User, rights: Rights, connections: Sequence[str]) -> Iterator[str]:
    """Somebody who signs what the broker challenges with, by the present key or the one before."""
    rest = _rest(rights, connections)
    for nkey in user.nkeys:
        yield f"{{ nkey: {quoted(nkey)}, {rest} }}"


def password_users(user: User, rights: Rights, connections: Sequence[str]) -> Iterator[str]:
    """Somebody who shows a name and a password, of which the broker knows the hash, if it has one."""
    if user.password_hash:
        password = f"password: {quoted(user.password_hash)}"
        yield f"{{ user: {quoted(user.name)}, {password}, {_rest(rights, connections)} }}"


def users_block(users: Iterable[str]) -> str:
    """All of them, one a line."""
    return "users: [\n  " + ",\n  ".join(users) + "\n]"


def _rest(rights: Rights, connections: Sequence[str]) -> str:
    permissions = ", ".join(
        f"{verb}: {{ {', '.join(parts)} }}"
        for verb, subjects in (("publish", rights.publish), ("subscribe", rights.subscribe))
        if (parts := list(_lists(subjects)))
    )
    types = f"allowed_connection_types: {listing(connections)}"
    return f"{types}, permissions: {{ {permissions} }}" if permissions else types


def _lists(subjects: Subjects) -> Iterator[str]:
    if subjects.allow is not None:
        yield f"allow: {listing(subjects.allow or (_NOTHING,))}"
    if subjects.deny:
        yield f"deny: {listing(subjects.deny)}"
