"""Rules across the fields of a federation file, judged on raw data so that they speak beside type errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mangrove.config.access_rules import access_mistakes
from mangrove.config.balancing_rules import balancing_mistakes
from mangrove.config.congestion_rules import congestion_mistakes
from mangrove.config.contract_rules import contract_mistakes, prepare_mistakes, risk_group_mistakes
from mangrove.config.host_rules import edge_slots, host_addresses, host_mistakes
from mangrove.config.kind_rules import kind_mistakes
from mangrove.config.name_rules import name_mistakes
from mangrove.errors import Mistake
from mangrove.model.address import MAX_PORT, Address, AddressError
from mangrove.model.endpoints import port_span
from mangrove.model.hosting.health_ports import HEALTH_STRIDE
from mangrove.model.site_pair import site_pair

FIRST_PORT = 7000
PORT_STEP = 100


def cross_field_mistakes(raw: Any) -> Iterator[Mistake]:
    """Mistakes that only show when fields are looked at together."""
    if not isinstance(raw, dict):
        return
    domains = _mapping(raw.get("domains"))
    yield from _link_mistakes(raw.get("links"), domains)
    yield from contract_mistakes(raw)
    yield from risk_group_mistakes(raw)
    yield from prepare_mistakes(raw)
    yield from balancing_mistakes(raw)
    yield from congestion_mistakes(raw)
    yield from access_mistakes(raw)
    yield from _external_mistakes(domains)
    yield from kind_mistakes(domains)
    yield from _security_mistakes(raw.get("security"))
    yield from host_mistakes(domains)
    yield from name_mistakes(domains, raw.get("topics"))
    yield from _port_mistakes(domains, raw.get("links"))


def default_base_port(position: int) -> int:
    """Base port of the domain at a position in the file that names none."""
    return FIRST_PORT + PORT_STEP * position


def _link_mistakes(links: Any, domains: dict[str, Any]) -> Iterator[Mistake]:
    known = ", ".join(map(str, domains)) or "none is defined"
    first_at: dict[tuple[str, str], int] = {}
    for index, link in enumerate(links if isinstance(links, list) else []):
        between = link.get("between") if isinstance(link, dict) else None
        if not (isinstance(between, list) and len(between) == 2):
            continue
        ends = [str(end) for end in between]
        for position, end in enumerate(ends):
            if end not in domains:
                yield Mistake(f"links[{index}].between[{position}]", f"there is no domain {end!r}", known)
        if ends[0] == ends[1]:
            yield Mistake(
                f"links[{index}].between", f"links {ends[0]!r} with itself", "two different domains"
            )
        pair = site_pair(*ends)
        if pair in first_at:
            yield Mistake(
                f"links[{index}].between",
                f"{' and '.join(ends)} are linked already by links[{first_at[pair]}]",
                "one link between two domains",
            )
        first_at.setdefault(pair, index)
        for side in _mapping(link.get("endpoints")):
            if side not in ends:
                yield Mistake(
                    f"links[{index}].endpoints.{side}", "is not an end of this link", " or ".join(ends)
                )


def _external_mistakes(domains: dict[str, Any]) -> Iterator[Mistake]:
    for name, domain in domains.items():
        domain = _mapping(domain)
        external = _mapping(domain.get("external"))
        if external.get("edges") and domain.get("edges"):
            yield Mistake(
                f"domains.{name}.edges",
                "edge brokers are named here and under external",
                "edges that we start, or external.edges, not both",
            )
        credentials = _mapping(external.get("credentials"))
        if domain.get("edges") and (credentials.get("nkey_file") or credentials.get("ca_file")):
            yield Mistake(
                f"domains.{name}.external.credentials",
                "edge brokers that we start attach to an external head by a password alone, without TLS",
                "password_file or password_env, or external.edges",
            )


def _security_mistakes(security: Any) -> Iterator[Mistake]:
    described = _mapping(security)
    if described.get("mode") == "none" and described.get("keys") is not None:
        yield Mistake("security", "keys are named, and none are to be used", "`none`, or `keys`, not both")


def _port_mistakes(domains: dict[str, Any], links: Any) -> Iterator[Mistake]:
    """Two things that would listen on the same address and port."""
    spans: list[tuple[str, int, int, str]] = []  # host, first, one past the last, where
    for position, (name, raw) in enumerate(domains.items()):
        domain = _mapping(raw)
        base = domain.get("base_port", default_base_port(position))
        if isinstance(base, int):
            taken = port_span(edge_slots(domain), len(_mapping(domain.get("hosts"))))
            where = f"domains.{name}.base_port"
            spans += [(host, base, base + taken, where) for host in host_addresses(domain)]
        health = domain.get("health_port")
        if isinstance(health, int):
            taken = HEALTH_STRIDE * max(1, len(_mapping(domain.get("hosts"))))
            where = f"domains.{name}.health_port"
            spans += [(host, health, health + taken, where) for host in host_addresses(domain)]
    for index, link in enumerate(links if isinstance(links, list) else []):
        for side, endpoint in _mapping(_mapping(link).get("endpoints")).items():
            try:
                host, port = Address.parse(str(endpoint))
            except AddressError:
                continue  # reported where it stands
            spans.append((host, port, port + 1, f"links[{index}].endpoints.{side}"))
    for later, (host, first, end, where) in enumerate(spans):
        if end - 1 > MAX_PORT:
            yield Mistake(where, f"needs ports {first} to {end - 1}", f"ports up to {MAX_PORT}")
        for other_host, other_first, other_end, other in spans[:later]:
            if host == other_host and first < other_end and other_first < end:
                yield Mistake(
                    where,
                    f"ports {first} to {end - 1} on {host} overlap with those of {other} "
                    f"({other_first} to {other_end - 1})",
                    "ranges that do not overlap",
                )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
