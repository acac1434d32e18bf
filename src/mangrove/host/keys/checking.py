"""Whether everything that a site needs is there before anything is started."""

from __future__ import annotations

from pathlib import Path

from mangrove.errors import InputError
from mangrove.host.keys.certificates import today
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files.change import complete_interrupted
from mangrove.host.keys.files.guarded_file import RESTORE
from mangrove.host.keys.files.key_files import read_broker, read_user_key
from mangrove.host.keys.ring import KeyRing, read_users
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Federation
from mangrove.model.security.users import USER_ROLES, DomainUsers


def check_site(directory: Path, federation: Federation, domain: str, host: str | None = None) -> None:
    """Refuse to run a site, or one host of it, with keys that are missing, damaged or open to others."""
    complete_interrupted(KeyDirectory(directory))
    keys = KeyDirectory(directory).domain(domain)
    ring = KeyRing.read(keys.path)
    if ring.about.federation != federation.name:
        raise InputError(
            f"{directory} has the keys of the federation {ring.about.federation}, not of {federation.name}",
            hint="name another directory with --keys",
        )
    described = federation.domains[domain]
    if runs_gateway(described, host):
        ring.identity  # noqa: B018 - refuses where there is none
    for broker in brokers_on(described, host):
        _, certificate, _ = read_broker(keys, broker, federation.name)
        ends = certificate.not_valid_after_utc
        if ends < today():
            raise InputError(
                f"{keys.broker_certificate(broker)} has expired on {ends:%Y-%m-%d}",
                hint=f"replace it: mangrove keys rotate FILE --domain {domain} --part brokers",
            )
    users = read_users(keys)
    for name in USER_ROLES:
        check_user(keys, users, name)


def check_user(keys: DomainKeys, users: DomainUsers, name: str) -> None:
    """Refuse a seed that belongs to somebody else: nobody would believe who shows it."""
    user = users.find(name)
    if user is None:
        raise InputError(f"{keys.users} does not know the user {name}", hint=RESTORE)
    key = read_user_key(keys.user_seed(name), keys.directory.path)
    if key.public not in user.nkeys:
        raise InputError(
            f"{keys.user_seed(name)} is not the seed of {name} in {keys.users.name}", hint=RESTORE
        )


def brokers_on(domain: Domain, host: str | None) -> list[str]:
    """The brokers of ours that run on a host of a domain, or, with None, on all of them."""
    endpoints = fixed_endpoints(domain)
    return [
        broker.name
        for broker in (*endpoints.succession, *endpoints.managements)
        if not broker.external and host in (None, broker.machine)
    ]


def runs_gateway(domain: Domain, host: str | None) -> bool:
    """Whether a gateway of a domain runs on this host of it."""
    hosts = [each.name for each in domain.all_hosts]
    return host is None or host in {hosts[number % len(hosts)] for number in range(domain.gateways)}
