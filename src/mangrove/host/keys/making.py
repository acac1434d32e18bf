"""Making keys, handing them to clients, and taking them back. Replacing them is in `rotation`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.host.keys.certificates import serial_of
from mangrove.host.keys.checking import check_user
from mangrove.host.keys.directory import ClientKeys, DomainKeys, KeyDirectory
from mangrove.host.keys.files.guarded_file import is_there
from mangrove.host.keys.files.key_files import read_broker, read_gateway
from mangrove.host.keys.ring import read_users
from mangrove.host.keys.rotation import Part, rotate
from mangrove.host.keys.workshop import Workshop, opened
from mangrove.model.endpoints import BrokerEndpoints, fixed_endpoints
from mangrove.model.federation import Domain, Federation
from mangrove.model.security.identity import NAME, ROLE_NAMES
from mangrove.model.security.users import CLIENT_ROLE, FIRST_CLIENT, USER_ROLES, DomainUsers

__all__ = ["Part", "issue_client", "make_keys", "revoke", "rotate"]

LOOPBACK = ("127.0.0.1", "localhost")


def make_keys(
    federation: Federation,
    directory: Path,
    *,
    now: datetime | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> KeyDirectory:
    """Make all keys of a federation, or those that are missing after its file has changed.

    What is there is looked at and kept; without the authority it must be complete.
    """
    with opened(directory, now, federation.name) as workshop:
        for domain in federation.domains.values():
            made = _complete_domain(workshop, domain)
            if made:
                progress(f"{domain.name}: {', '.join(made)}")
        guests = {each.name: each.accept_load_from for each in federation.domains.values()}
        taken = {host: homes for host, homes in guests.items() if homes}
        workshop.about = msgspec.structs.replace(workshop.about, guests=taken)
    return workshop.directory


def issue_client(
    directory: Path, domain: str, name: str, *, role: str = CLIENT_ROLE, now: datetime | None = None
) -> ClientKeys:
    """Make the keys of a client of a domain; its folder is all that the client needs."""
    for text in (name, role):
        if not NAME.fullmatch(text):
            raise InputError(
                f"{text!r} is no name", hint="a name has letters, digits, '-' and '_', and at most 63 of them"
            )
    if name in USER_ROLES or (role in ROLE_NAMES and role != CLIENT_ROLE):
        raise InputError(
            f"{name if name in USER_ROLES else role!r} is the name of one of ours", hint="choose another"
        )
    with opened(directory, now) as workshop:
        keys = workshop.domain(domain)
        users = read_users(keys)
        if users.find(name) is not None:
            raise InputError(
                f"{domain} has a client {name!r} already", hint="replace its keys with `mangrove keys rotate`"
            )
        issuer = workshop.issuer
        workshop.write_users(keys, users.with_user(issuer.client(keys, name, role, workshop.trusted)))
    return keys.client(name)


def revoke(directory: Path, domain: str, *, client: str = "", now: datetime | None = None) -> None:
    """Believe a client of a domain no longer; or, without one, the domain's gateway."""
    with opened(directory, now) as workshop:
        keys = workshop.domain(domain)
        if not client:
            _, _, certificate = read_gateway(keys, workshop.about.federation)
            ended = {each.serial: each.ends_s for each in workshop.about.replaced if each.domain == domain}
            ended[serial_of(certificate)] = int(certificate.not_valid_after_utc.timestamp())
            workshop.revoke(ended, ())
            return
        users = read_users(keys)
        user = users.find(client)
        if user is None or not user.client:
            known = ", ".join(each.name for each in users.users if each.client) or "none"
            raise InputError(f"{domain} has no client {client!r}", hint=f"its clients: {known}")
        workshop.revoke({}, user.nkeys)
        workshop.write_users(keys, users.without(client))
        workshop.change.remove(keys.client(client).path)


def _complete_domain(workshop: Workshop, domain: Domain) -> list[str]:
    """Make what a domain lacks; returns what that was."""
    keys = workshop.directory.domain(domain.name)
    made = []
    if any(map(is_there, (keys.gateway_key, keys.gateway_certificate, keys.sealing_key))):
        read_gateway(keys, workshop.about.federation)
    else:
        workshop.issuer.gateway(keys)
        made.append("gateway")
    made += _complete_brokers(workshop, keys, domain)
    new = not is_there(keys.users)
    before = users = DomainUsers() if new else read_users(keys)
    for name, role in USER_ROLES.items():
        if users.find(name) is None:
            users = users.with_user(workshop.issuer.user(keys, name, role))
        else:
            check_user(keys, users, name)
    if new:
        first = workshop.issuer.client(keys, FIRST_CLIENT, CLIENT_ROLE, workshop.trusted)
        users = users.with_user(first)
    if users != before:
        workshop.write_users(keys, users)
        made.append("users")
    return made


def _complete_brokers(workshop: Workshop, keys: DomainKeys, domain: Domain) -> list[str]:
    endpoints = fixed_endpoints(domain)
    made = []
    for broker in (*endpoints.succession, *endpoints.managements):
        if broker.external:
            continue
        addresses = broker_addresses(broker)
        if not any(map(is_there, (keys.broker_key(broker.name), keys.broker_certificate(broker.name)))):
            workshop.issuer.broker(keys, broker.name, addresses)
            made.append(broker.name)
            continue
        key, _, certified = read_broker(keys, broker.name, workshop.about.federation)
        if not set(addresses) <= set(certified):
            workshop.issuer.broker(keys, broker.name, addresses, key)
            made.append(f"{broker.name} at {', '.join(addresses)}")
    return made


def broker_addresses(broker: BrokerEndpoints) -> tuple[str, ...]:
    """Where clients find a broker: at the address of its host, and from the host itself."""
    try:
        anywhere = ipaddress.ip_address(broker.host).is_unspecified
    except ValueError:
        anywhere = False
    return tuple(dict.fromkeys(LOOPBACK if anywhere else (broker.host, *LOOPBACK)))
