"""Rules on the kind of a domain's brokers: what a RabbitMQ cannot be asked for, and how its URL looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from mangrove.errors import Mistake
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind

RABBITMQ = BrokerKind.RABBITMQ.value
# Key of a domain → why a domain whose head is a RabbitMQ cannot have it.
NOT_WITH_RABBITMQ = {
    "edges": "a RabbitMQ has no edge brokers: all its clients connect to the head",
    "elastic": "a RabbitMQ has no edge brokers that could be switched on and off",
    "accept_load_from": "agents move no clients to a RabbitMQ",
    "steer": "agents move no clients of a RabbitMQ",
    "move_plain_clients": "agents move no clients of a RabbitMQ: it has no edge brokers to move them to",
}


def kind_mistakes(domains: dict[str, Any]) -> Iterator[Mistake]:
    """What does not go with the kind of a domain's brokers."""
    for name, domain in domains.items():
        if not isinstance(domain, dict):
            continue
        external = _mapping(domain.get("external"))
        place = f"domains.{name}"
        if "kind" in domain and "kind" in external and domain["kind"] != external["kind"]:
            yield Mistake(
                f"{place}.external.kind",
                f"found {external['kind']!r}, and `kind` of the domain is {domain['kind']!r}",
                "one of them, or both the same",
            )
            continue
        kind = kind_in(domain)
        if kind is None:
            continue  # reported where it stands
        yield from _url_mistakes(f"{place}.external", external, kind)
        if kind is BrokerKind.RABBITMQ:
            yield from _rabbitmq_mistakes(place, domain, external)
        elif external.get("exchange"):
            yield Mistake(f"{place}.external.exchange", "NATS has no exchanges", f"`kind: {RABBITMQ}`")


def kind_in(domain: dict[str, Any]) -> BrokerKind | None:
    """The kind of a domain's brokers, as raw data says it; None if there is no such kind."""
    external = domain.get("external")
    inner = external.get("kind") if isinstance(external, dict) else None
    try:
        return BrokerKind(inner or domain.get("kind", BrokerKind.NATS))
    except ValueError:
        return None


def _url_mistakes(place: str, external: dict[str, Any], kind: BrokerKind) -> Iterator[Mistake]:
    urls = BROKER_URLS[kind]
    edges = external.get("edges")
    named = {"head": external.get("head")}
    named |= {
        f"edges[{number}]": edge for number, edge in enumerate(edges if isinstance(edges, list) else ())
    }
    for key, url in named.items():
        scheme = urlsplit(url).scheme if isinstance(url, str) and "://" in url else ""
        if scheme and scheme not in urls.client_schemes:
            other = next((each for each in BrokerKind if scheme in BROKER_URLS[each].client_schemes), None)
            remedy = f", or `kind: {other.value}`" if other is not None else ""
            allowed = " or ".join(f"{each}://host:port" for each in urls.client_schemes)
            yield Mistake(
                f"{place}.{key}", f"found {url!r}, and the domain's kind is {kind}", allowed + remedy
            )


def _rabbitmq_mistakes(place: str, domain: dict[str, Any], external: dict[str, Any]) -> Iterator[Mistake]:
    for key, why in NOT_WITH_RABBITMQ.items():
        if domain.get(key):
            yield Mistake(f"{place}.{key}", why, f"leave it out, or `kind: {BrokerKind.NATS}`")
    if external.get("edges"):
        why = NOT_WITH_RABBITMQ["edges"]
        yield Mistake(f"{place}.external.edges", why, "leave it out")
    if external.get("leaf"):
        yield Mistake(f"{place}.external.leaf", "a RabbitMQ has no leaf nodes", "`head` alone")
    if domain.get("gateways", 1) != 1:
        yield Mistake(
            f"{place}.gateways",
            "beside a RabbitMQ no second gateway stands by: what leaves the domain waits in a durable queue "
            "until the gateway is back",
            "1",
        )
    hosts = domain.get("hosts")
    if isinstance(hosts, dict) and len(hosts) > 1:
        yield Mistake(f"{place}.hosts", "a RabbitMQ runs on one host, with all else of its site", "one host")
    credentials = external.get("credentials")
    if isinstance(credentials, dict) and credentials.get("nkey_file"):
        yield Mistake(
            f"{place}.external.credentials.nkey_file",
            "a RabbitMQ knows no NKEYs",
            "user, with password_file or password_env",
        )
    head = external.get("head")
    if isinstance(credentials, dict) and credentials.get("ca_file") and str(head).startswith("amqp://"):
        yield Mistake(
            f"{place}.external.head",
            f"found {head!r}, which is not encrypted, and `ca_file` under `credentials`",
            "amqps://host:port, or no ca_file",
        )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
