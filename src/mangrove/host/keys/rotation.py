"""Replacing keys: the new ones are in force at once, and the old ones are believed until that is ended.

Whoever learns of the new keys later meets nobody that it does not believe. An authority is replaced in two
steps for that reason: first all believe it, then it issues.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.host.keys.certificates import Authority, certificate_pem, key_pem
from mangrove.host.keys.directory import DomainKeys
from mangrove.host.keys.files.guarded_file import is_there
from mangrove.host.keys.files.key_files import (
    brokers_of,
    read_broker,
    read_gateway,
    read_next_authority,
    read_previous_sealing_keys,
)
from mangrove.host.keys.revocation import signed
from mangrove.host.keys.ring import read_users
from mangrove.host.keys.workshop import Workshop, opened
from mangrove.model.security.identity import Role
from mangrove.model.security.users import User

MAX_PREVIOUS = 8
"""Sealing keys that are kept beside the newest, however often it is replaced before that is ended."""


class Part(StrEnum):
    """What of a domain can be replaced by itself."""

    GATEWAY = "gateway"
    SEALING = "sealing"
    BROKERS = "brokers"
    USERS = "users"
    CLIENTS = "clients"


def rotate(
    directory: Path,
    *,
    domains: Collection[str] | None = None,
    parts: Collection[Part] = tuple(Part),
    client: str = "",
    now: datetime | None = None,
) -> None:
    """Replace keys of these domains, or of all; of clients, those of one alone if it is named.

    A client's password cannot be believed beside the one before, which ends at once.
    """
    with opened(directory, now) as workshop:
        chosen = workshop.domains() if domains is None else [workshop.domain(name) for name in domains]
        for keys in chosen:
            _rotate_domain(workshop, keys, parts, client)


def introduce_authority(directory: Path, now: datetime | None = None) -> None:
    """Make the next authority, and have it believed beside the one that issues."""
    with opened(directory, now) as workshop:
        if is_there(workshop.directory.next_authority_key):
            raise InputError(
                "there is a next authority already",
                hint="let it issue with `mangrove keys rotate --authority`",
            )
        workshop.require_authority()
        number = workshop.about.authority + 1
        workshop.about = msgspec.structs.replace(workshop.about, authority=number)
        coming = Authority.make(workshop.about.federation, number, workshop.now)
        workshop.change.write(workshop.directory.next_authority_key, key_pem(coming.key))
        workshop.change.write(
            workshop.directory.next_authority_certificate, certificate_pem(coming.certificate)
        )
        workshop.trust([*workshop.trusted, coming.certificate])
        _tell_clients(workshop)


def change_authority(directory: Path, now: datetime | None = None) -> None:
    """Let the next authority certify everybody anew. All who were told of it believe them."""
    with opened(directory, now) as workshop:
        if not is_there(workshop.directory.next_authority_key):
            raise InputError(
                "there is no next authority", hint="make one with `mangrove keys rotate --authority`"
            )
        workshop.install(read_next_authority(workshop.directory))
        workshop.change.remove(workshop.directory.next_authority_key)
        workshop.change.remove(workshop.directory.next_authority_certificate)
        workshop.change.write(
            workshop.directory.revoked, signed(workshop.revocations, workshop.issuer.authority)
        )
        for keys in workshop.domains():
            key, sealing, certificate = read_gateway(keys, workshop.about.federation)
            workshop.replace(keys.domain, certificate)
            if workshop.has_revoked(certificate):  # who has its keys is not certified anew
                workshop.issuer.gateway(keys)
            else:
                workshop.issuer.gateway(keys, key, sealing)
            for broker in brokers_of(keys):
                broker_key, _, addresses = read_broker(keys, broker, workshop.about.federation)
                workshop.issuer.broker(keys, broker, addresses, broker_key)


def finish(directory: Path, now: datetime | None = None) -> bool:
    """End what was replaced: old certificates, NKEYs and authorities. Returns whether there was something."""
    with opened(directory, now) as workshop:
        ended: list[str] = []
        for keys in workshop.domains():
            users = read_users(keys)
            old = [user for user in users.users if user.previous_nkey]
            for user in old:
                ended.append(user.previous_nkey)
                users = users.with_user(msgspec.structs.replace(user, previous_nkey=""))
            if old:
                workshop.write_users(keys, users)
            if is_there(keys.previous_sealing_key):
                workshop.change.remove(keys.previous_sealing_key)
        replaced = {each.serial: each.ends_s for each in workshop.about.replaced}
        if replaced or ended:
            workshop.revoke(replaced, ended)
            workshop.about = msgspec.structs.replace(workshop.about, replaced=())
        own = workshop.issuer.authority.certificate
        if not is_there(workshop.directory.next_authority_key) and workshop.trusted != [own]:
            workshop.trust([own])
            _tell_clients(workshop)
        return workshop.change.is_needed


def _rotate_domain(workshop: Workshop, keys: DomainKeys, parts: Collection[Part], client: str) -> None:
    issuer = workshop.issuer
    if Part.GATEWAY in parts or Part.SEALING in parts:
        key, sealing, certificate = read_gateway(keys, workshop.about.federation)
        workshop.replace(keys.domain, certificate)
        new = set(Part) if workshop.has_revoked(certificate) else set(parts)
        issuer.gateway(keys, None if Part.GATEWAY in new else key, None if Part.SEALING in new else sealing)
        if Part.SEALING in new:
            previous = (sealing, *read_previous_sealing_keys(keys))[:MAX_PREVIOUS]
            workshop.change.write(keys.previous_sealing_key, b"".join(map(key_pem, previous)))
    if Part.BROKERS in parts:
        for broker in brokers_of(keys):
            _, _, addresses = read_broker(keys, broker, workshop.about.federation)
            issuer.broker(keys, broker, addresses)
    before = users = read_users(keys)
    for user in before.users:
        if not user.client and Part.USERS in parts:
            users = users.with_user(_following(issuer.user(keys, user.name, Role(user.role)), user))
        if user.client and Part.CLIENTS in parts and client in ("", user.name):
            again = issuer.client(keys, user.name, user.role, workshop.trusted)
            users = users.with_user(_following(again, user))
    if client and (before.find(client) is None or Part.CLIENTS not in parts):
        raise InputError(f"{keys.domain} has no client {client!r}")
    if users != before:
        workshop.write_users(keys, users)


def _following(new: User, old: User) -> User:
    """A user with its new key, and the one before as long as both are believed."""
    return msgspec.structs.replace(new, previous_nkey=old.nkey)


def _tell_clients(workshop: Workshop) -> None:
    """Give the clients whose folders are here the authorities that are believed."""
    pem = certificate_pem(*workshop.trusted)
    for keys in workshop.domains():
        for user in read_users(keys).users:
            folder = keys.client(user.name)
            if user.client and is_there(folder.path):
                workshop.change.write(folder.trusted, pem)
