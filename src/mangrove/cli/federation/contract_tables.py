"""Tables of `mangrove status` about contracts: their routes, what they ask and get, who asks for more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import (
    USEFUL,
    Table,
    bad,
    details_column,
    name_column,
    number_column,
    word_column,
)

if TYPE_CHECKING:
    from mangrove.model.status import FederationStatus, GatewayStatus


def routes_table(found: FederationStatus) -> Table:
    table = Table(
        "Routes",
        name_column("topic"),
        name_column("to"),
        number_column("predicted ms"),
        number_column("deadline ms"),
        number_column("resiliency", USEFUL),
        details_column("path"),
        details_column("note"),
    )
    for _, gateway in answering(found):
        for route in gateway.routes:
            table.add(
                route.topic,
                route.destination,
                f"{route.predicted_ms:.1f}",
                "–" if route.deadline_ms is None else f"{route.deadline_ms:g}",
                f"{route.resiliency:.3%}",
                " → ".join(route.path),
                bad(route.unmet) if route.unmet else "" if route.active else "being established",
                matters=bool(route.unmet),
            )
    return table


def asks_table(found: FederationStatus) -> Table:
    table = Table(
        "Asked for beyond the contracts",
        name_column("topic"),
        name_column("domain"),
        name_column("by"),
        number_column("sessions"),
        number_column("deadline ms"),
        number_column("paths"),
        number_column("resiliency"),
    )
    for domain, gateway in answering(found):
        for ask in gateway.asks:
            table.add(
                ask.topic,
                domain,
                f"{ask.role}s",
                f"{ask.sessions:,}",
                "–" if ask.deadline_ms is None else f"{ask.deadline_ms:g}",
                "–" if ask.paths is None else str(ask.paths),
                "–" if ask.resiliency is None else f"{ask.resiliency:g}",
            )
    return table


def promises_table(found: FederationStatus) -> Table:
    """What contracts ask of their paths, and what they get: a row for each set and key."""
    from mangrove.model.status import amount

    table = Table(
        "Promises",
        name_column("topic"),
        name_column("from"),
        name_column("to"),
        word_column("asks for"),
        number_column("asked"),
        number_column("given"),
        details_column("apart from"),
    )
    for domain, gateway in answering(found):
        sets = {(route.topic, route.destination): route.requirements for route in gateway.routes}
        for (topic, destination), requirements in sets.items():
            for each in requirements:
                given = amount(each.name, each.achieved)
                table.add(
                    topic,
                    domain,
                    destination,
                    each.name,
                    amount(each.name, each.asked),
                    given if each.met else bad(given),
                    each.apart_from,
                    matters=not each.met,
                )
    return table


def arrivals_table(found: FederationStatus) -> Table:
    table = Table(
        "Arrivals",
        name_column("topic"),
        name_column("from"),
        name_column("to"),
        number_column("observed ms"),
        number_column("deadline ms"),
        number_column("late"),
    )
    for domain, gateway in answering(found):
        for arrival in gateway.arrivals:
            table.add(
                arrival.topic,
                arrival.origin,
                domain,
                f"{arrival.observed_ms:.1f}",
                "–" if arrival.deadline_ms is None else f"{arrival.deadline_ms:g}",
                f"{arrival.late:,}",
                matters=bool(arrival.late),
            )
    return table


def answering(found: FederationStatus) -> Iterator[tuple[str, GatewayStatus]]:
    """Domains whose gateway answers."""
    for domain in found.domains:
        if domain.gateway is not None:
            yield domain.domain, domain.gateway
