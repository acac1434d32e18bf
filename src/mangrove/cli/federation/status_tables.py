"""The tables of `mangrove status`, one function for each; an empty table is not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Styled,
    Table,
    bad,
    details_column,
    good,
    name_column,
    number_column,
    word_column,
)

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.questions.endangered import EndangeredRegion, ExposedPath
    from mangrove.model.status import FederationStatus, GatewayStatus, LinkStatus

BUSIEST = 10


def show_status(found: FederationStatus, console: Console) -> None:
    """All tables that have rows, and the warnings."""
    from rich.markup import escape

    for make in (
        _brokers,
        _gateways,
        _links,
        _routes,
        _promises,
        _asks,
        _endangered,
        _exposed,
        _arrivals,
        _busiest,
        _drops,
        _others,
    ):
        table = make(found)
        if table:
            table.show(console)
    for warning in found.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}")


def _brokers(found: FederationStatus) -> Table:
    table = Table(
        f"Brokers of {found.federation}",
        name_column("broker"),
        word_column("state"),
        word_column("uptime", USEFUL),
        number_column("clients"),
        number_column("leaf nodes", EXTRA),
        number_column("subscriptions", USEFUL),
        number_column("msgs in"),
        number_column("msgs out"),
        number_column("memory", USEFUL),
    )
    for domain in found.domains:
        for broker in domain.brokers:
            table.add(
                broker.name,
                _state(broker.reachable, "up", "unreachable"),
                broker.uptime,
                f"{broker.connections:,}",
                f"{broker.attached_brokers:,}",
                f"{broker.subscriptions:,}",
                f"{broker.messages_in:,}",
                f"{broker.messages_out:,}",
                f"{broker.memory_bytes / 1e6:.0f} MB",
                matters=not broker.reachable,
            )
    return table


def _gateways(found: FederationStatus) -> Table:
    table = Table(
        "Gateways",
        name_column("gateway"),
        word_column("state"),
        number_column("uptime", USEFUL),
        number_column("colour", USEFUL),
        number_column("wanted here", USEFUL),
        number_column("sent"),
        number_column("delivered"),
        number_column("duplicates"),
        number_column("in ms", USEFUL),
        number_column("out ms", USEFUL),
    )
    for domain in found.domains:
        gateway = domain.gateway
        if gateway is None:
            table.add(domain.domain, bad("does not answer"), matters=True)
            continue
        table.add(
            domain.domain,
            _state(gateway.head_connected, "up", "no head broker"),
            f"{gateway.uptime_s:,.0f}s",
            f"{gateway.colour}",
            f"{gateway.interest.get(domain.domain, 0):,}",
            f"{gateway.sent:,}",
            f"{gateway.delivered:,}",
            f"{gateway.duplicates:,}",
            "–" if gateway.inside.ingress_ms is None else f"{gateway.inside.ingress_ms:.1f}",
            f"{max(gateway.inside.egress_ms.values()):.1f}" if gateway.inside.egress_ms else "–",
            matters=not gateway.head_connected,
        )
    return table


def _links(found: FederationStatus) -> Table:
    table = Table(
        "Links",
        name_column("from"),
        name_column("to"),
        word_column("state"),
        number_column("rtt ms"),
        number_column("jitter ms", EXTRA),
        number_column("loss", USEFUL),
        number_column("available", USEFUL),
        number_column("failures"),
        number_column("frames out", EXTRA),
        number_column("unacked", EXTRA),
        number_column("waiting"),
        details_column("note"),
    )
    for domain, gateway in _answering(found):
        for link in gateway.links:
            table.add(
                domain,
                link.peer,
                _state(link.up, link.state, link.state),
                "–" if link.rtt_ms is None else f"{link.rtt_ms:.1f}",
                f"{link.jitter_ms:.1f}",
                "–" if link.loss_ratio is None else f"{link.loss_ratio:.2%}",
                f"{link.availability:.2%}",
                f"{link.failures:,}",
                f"{link.frames_out:,}",
                f"{link.unacknowledged:,}",
                f"{link.queued_bytes:,} B",
                _link_note(link),
                matters=not link.up,
            )
    return table


def _routes(found: FederationStatus) -> Table:
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
    for _, gateway in _answering(found):
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


def _asks(found: FederationStatus) -> Table:
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
    for domain, gateway in _answering(found):
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


def _promises(found: FederationStatus) -> Table:
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
    for domain, gateway in _answering(found):
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


def _endangered(found: FederationStatus) -> Table:
    """What any gateway knows to be endangered."""
    regions = {region.name: region for _, gateway in _answering(found) for region in gateway.endangered}
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


def _exposed(found: FederationStatus) -> Table:
    return exposed_table((domain, path) for domain, gateway in _answering(found) for path in gateway.exposed)


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


def _arrivals(found: FederationStatus) -> Table:
    table = Table(
        "Arrivals",
        name_column("topic"),
        name_column("from"),
        name_column("to"),
        number_column("observed ms"),
        number_column("deadline ms"),
        number_column("late"),
    )
    for domain, gateway in _answering(found):
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


def _drops(found: FederationStatus) -> Table:
    table = Table(
        "Dropped messages",
        name_column("gateway"),
        name_column("topic"),
        number_column("count"),
        details_column("reason"),
    )
    for domain, gateway in _answering(found):
        for drop in gateway.drops:
            table.add(domain, drop.topic, f"{drop.count:,}", drop.reason)
    return table


def _others(found: FederationStatus) -> Table:
    table = Table("Also counted", name_column("gateway"), number_column("count"), details_column("what"))
    for domain, gateway in _answering(found):
        for what, count in _also_counted(gateway):
            table.add(domain, f"{count:,}", what)
    return table


def _also_counted(gateway: GatewayStatus) -> Iterator[tuple[str, int]]:
    """Everything that a gateway counted and that has no column of its own, as far as it happened."""
    named: Counter[str] = Counter()
    for drop in gateway.drops:
        named[drop.reason] += drop.count
    counts = {
        "requests and replies sent": gateway.requests_sent,
        "requests and replies delivered": gateway.requests_delivered,
        "messages for queue groups sent on to another domain": gateway.sent_on,
        "bodies refused as malformed": gateway.malformed_bodies,
        "connections refused": gateway.refused_connections,
        "wanted subjects refused: beyond the limit, or malformed": gateway.refused_subjects,
        "gaps in a publisher's order that were not filled in time": gateway.gaps,
        "frames delivered out of order, after their gap was given up": gateway.out_of_turn,
        **{f"dropped on other topics: {reason}": n - named[reason] for reason, n in gateway.dropped.items()},
        **{f"ignored: {what}": count for what, count in gateway.ignored.items()},
    }
    return ((what, count) for what, count in counts.items() if count)


def _busiest(found: FederationStatus) -> Table:
    """Over all gateways: what a topic's sites sent and received across domains."""
    sent: Counter[str] = Counter()
    delivered: Counter[str] = Counter()
    for _, gateway in _answering(found):
        sent.update(gateway.busiest_sent)
        delivered.update(gateway.busiest_delivered)
    table = Table(
        "Busiest topics between domains",
        name_column("topic"),
        number_column("sent"),
        number_column("delivered"),
    )
    both = sent + delivered
    for topic, _ in both.most_common(BUSIEST):
        table.add(topic, f"{sent[topic]:,}", f"{delivered[topic]:,}")
    table.leave_out(max(len(both) - BUSIEST, 0))
    return table


def _answering(found: FederationStatus) -> Iterator[tuple[str, GatewayStatus]]:
    """Domains whose gateway answers."""
    for domain in found.domains:
        if domain.gateway is not None:
            yield domain.domain, domain.gateway


def _link_note(link: LinkStatus) -> str:
    """What went wrong, and who waits."""
    notes = [link.last_error or (f"{link.reconnects} reconnects" if link.reconnects else "")]
    notes += [f"{topic} waits {waited:.1f} ms" for topic, waited in link.waits_ms.items()]
    notes += [f"{topic} overruns its budget in {share:.0%}" for topic, share in link.overruns.items()]
    return "; ".join(note for note in notes if note)


def _state(is_good: bool, yes: str, no: str) -> Styled:
    return good(yes) if is_good else bad(no)
