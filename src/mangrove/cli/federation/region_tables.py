"""Tables of endangered regions, and of what still leads through them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mangrove.cli.federation.contract_tables import answering
from mangrove.cli.tables.table import (
    USEFUL,
    Table,
    bad,
    details_column,
    name_column,
    number_column,
)

if TYPE_CHECKING:
    from mangrove.model.questions.endangered import EndangeredRegion, ExposedPath
    from mangrove.model.status import FederationStatus


def endangered_now(found: FederationStatus) -> Table:
    """What any gateway knows to be endangered."""
    regions = {region.name: region for _, gateway in answering(found) for region in gateway.endangered}
    return endangered_table([regions[name] for name in sorted(regions)])


def endangered_table(regions: Iterable[EndangeredRegion]) -> Table:
    """Regions, and what of the network they touch."""
    table = Table(
        "Endangered regions",
        name_column("region"),
        number_column("centre"),
        number_column("radius km"),
        number_column("left"),
        name_column("told at", USEFUL),
        details_column("sites inside"),
        details_column("links touched"),
    )
    for region in regions:
        table.add(
            region.name,
            f"{region.centre[0]:g},{region.centre[1]:g}",
            f"{region.radius_km:g}",
            _left(region.left_s),
            region.told_at,
            ", ".join(region.sites) or "none",
            ", ".join("–".join(link) for link in region.links) or "none",
        )
    return table


def _left(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def exposed_now(found: FederationStatus) -> Table:
    return exposed_table((domain, path) for domain, gateway in answering(found) for path in gateway.exposed)


def exposed_table(exposed: Iterable[tuple[str, ExposedPath]]) -> Table:
    """Paths of contracts that lead through endangered regions, and why."""
    table = Table(
        "Still in an endangered region",
        name_column("topic"),
        name_column("from"),
        name_column("to"),
        name_column("region"),
        details_column("path"),
        details_column("why"),
    )
    for domain, path in exposed:
        table.add(
            path.topic,
            domain,
            path.destination,
            ", ".join(path.regions),
            " → ".join(path.path),
            bad(path.reason) if path.reason else "is leaving",
            matters=bool(path.reason),
        )
    return table
