"""Rules on the hosts of a domain: which broker runs where, and how many there may be."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, TypeGuard

from mangrove.errors import Mistake

DEFAULT_ADDRESS = "127.0.0.1"


def host_mistakes(domains: dict[str, Any]) -> Iterator[Mistake]:
    """Brokers on no host or on two, hosts that nobody could reach, and edges that could never be added."""
    for name, domain in domains.items():
        if not isinstance(domain, dict):
            continue
        place = f"domains.{name}"
        hosts = _mapping(domain.get("hosts"))
        if hosts:
            yield from _placement_mistakes(place, domain, hosts)
            yield from _address_mistakes(place, domain, hosts)
        yield from _elastic_mistakes(place, domain)


def edge_slots(domain: dict[str, Any]) -> int:
    """Edges of ours, those that may be added included, as far as can be told."""
    elastic = domain.get("elastic")
    most = elastic.get("max_edges", 0) if isinstance(elastic, dict) else 0
    return max(_edge_count(domain), most if _is_count(most) else 0)


def host_addresses(domain: dict[str, Any]) -> list[str]:
    """Where the processes of a domain listen; each address once."""
    hosts = _mapping(domain.get("hosts")).values()
    found = [_mapping(host).get("address") for host in hosts] or [domain.get("address", DEFAULT_ADDRESS)]
    return [each for each in dict.fromkeys(found) if isinstance(each, str)]


def _placement_mistakes(place: str, domain: dict[str, Any], hosts: dict[str, Any]) -> Iterator[Mistake]:
    ours = [] if domain.get("external") else ["head"]
    ours += [f"edge{number + 1}" for number in range(_edge_count(domain))]
    allowed = ", ".join(ours) or "none: the domain has no broker of its own"
    first_at: dict[str, str] = {}
    for host, described in hosts.items():
        brokers = _mapping(described).get("brokers")
        for position, broker in enumerate(brokers if isinstance(brokers, list) else []):
            here = f"{place}.hosts.{host}.brokers[{position}]"
            if broker not in ours:
                yield Mistake(here, f"there is no broker {broker!r} of ours", allowed)
            elif broker in first_at:
                yield Mistake(here, f"{broker} runs at {first_at[broker]} already", "each broker on one host")
            first_at.setdefault(str(broker), f"hosts.{host}")
    missing = [broker for broker in ours if broker not in first_at]
    if missing:
        yield Mistake(f"{place}.hosts", f"no host runs {', '.join(missing)}", "each broker on one host")


def _address_mistakes(place: str, domain: dict[str, Any], hosts: dict[str, Any]) -> Iterator[Mistake]:
    if "address" in domain:
        yield Mistake(f"{place}.address", "the hosts have addresses of their own", "`address` or `hosts`")
    if len(hosts) == 1:
        return
    for host, described in hosts.items():
        address = _mapping(described).get("address")
        if isinstance(address, str) and _is_wildcard(address):
            yield Mistake(
                f"{place}.hosts.{host}.address",
                f"found {address!r}: the other hosts could not reach it",
                "one address of the machine",
            )


def _elastic_mistakes(place: str, domain: dict[str, Any]) -> Iterator[Mistake]:
    elastic = domain.get("elastic")
    most = elastic.get("max_edges") if isinstance(elastic, dict) else None
    count = _edge_count(domain)
    if _is_count(most) and 0 < most < count:
        yield Mistake(f"{place}.elastic.max_edges", f"found {most}", f"at least the {count} that there are")


def _edge_count(domain: dict[str, Any]) -> int:
    edges = domain.get("edges", 0)
    return len(edges) if isinstance(edges, list) else edges if _is_count(edges) else 0


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
