"""`mangrove status`: the state of a running federation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mangrove.model.status import FederationStatus, GatewayStatus, LinkStatus

FederationOption = Annotated[
    str | None, typer.Option("--federation", "-f", help="Which one, if several run on this machine.")
]


def status(
    federation: FederationOption = None, run_dir: RunDirOption = None, as_json: JsonOption = False
) -> None:
    """Show brokers, links, interest and drops. Exit code 1 if something is down."""
    from mangrove.agent.inspection import inspect
    from mangrove.host.runtime_file import find_running

    found = run_async(inspect(find_running(federation, run_dir)))
    if as_json:
        print_json({"healthy": found.healthy, **_plain(found)})
    else:
        _render(found, stdout_console())
    if not found.healthy:
        raise typer.Exit(EXIT_NEGATIVE)


def _plain(found: FederationStatus) -> dict[str, object]:
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(found)
    return plain


def _render(found: FederationStatus, console: Console) -> None:
    from rich.markup import escape

    brokers = _table(
        f"Brokers of {found.federation}",
        ("broker", "state", "uptime"),
        ("clients", "leaf nodes", "subscriptions", "msgs in", "msgs out", "memory"),
    )
    gateways = _table(
        "Gateways",
        ("gateway", "state", "uptime"),
        ("colour", "wanted here", "sent", "delivered", "duplicates"),
    )
    routes = _table("Routes", ("topic", "path"), ("predicted ms", "deadline ms", "resiliency"), ("note",))
    arrivals = _table("Arrivals", ("topic", "from → to"), ("observed ms", "deadline ms", "late"))
    links = _table(
        "Links",
        ("link", "state"),
        ("rtt ms", "jitter ms", "loss", "available", "failures", "frames out", "unacked", "waiting"),
        ("note",),
    )
    drops = _table("Dropped messages", ("gateway", "topic", "reason"), ("count",))
    others = _table("Also counted", ("gateway", "what"), ("count",))
    for domain in found.domains:
        for broker in domain.brokers:
            brokers.add_row(
                broker.name,
                _state(broker.reachable, "up", "unreachable"),
                broker.uptime,
                f"{broker.connections:,}",
                f"{broker.attached_brokers:,}",
                f"{broker.subscriptions:,}",
                f"{broker.messages_in:,}",
                f"{broker.messages_out:,}",
                f"{broker.memory_bytes / 1e6:.0f} MB",
            )
        gateway = domain.gateway
        if gateway is None:
            gateways.add_row(domain.domain, _state(False, "", "does not answer"))
            continue
        gateways.add_row(
            domain.domain,
            _state(gateway.head_connected, "up", "no head broker"),
            f"{gateway.uptime_s:,.0f}s",
            f"{gateway.colour}",
            f"{gateway.interest.get(domain.domain, 0):,}",
            f"{gateway.sent:,}",
            f"{gateway.delivered:,}",
            f"{gateway.duplicates:,}",
        )
        for link in gateway.links:
            links.add_row(
                f"{domain.domain} → {link.peer}",
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
            )
        for route in gateway.routes:
            routes.add_row(
                route.topic,
                " → ".join(route.path),
                f"{route.predicted_ms:.1f}",
                "–" if route.deadline_ms is None else f"{route.deadline_ms:g}",
                f"{route.resiliency:.3%}",
                route.unmet or ("" if route.active else "being established"),
            )
        for arrival in gateway.arrivals:
            arrivals.add_row(
                arrival.topic,
                f"{arrival.origin} → {domain.domain}",
                f"{arrival.observed_ms:.1f}",
                "–" if arrival.deadline_ms is None else f"{arrival.deadline_ms:g}",
                f"{arrival.late:,}",
            )
        for drop in gateway.drops:
            drops.add_row(domain.domain, drop.topic, drop.reason, f"{drop.count:,}")
        for what, count in _also_counted(gateway):
            others.add_row(domain.domain, what, f"{count:,}")
    for table in (brokers, gateways, links, routes, arrivals, drops, others):
        if table.row_count:
            console.print(table)
    for warning in found.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}")


def _also_counted(gateway: GatewayStatus) -> Iterator[tuple[str, int]]:
    """Everything that a gateway counted and that has no column of its own, as far as it happened."""
    named: Counter[str] = Counter()
    for drop in gateway.drops:
        named[drop.reason] += drop.count
    counts = {
        "requests and replies sent": gateway.requests_sent,
        "requests and replies delivered": gateway.requests_delivered,
        "bodies refused as malformed": gateway.malformed_bodies,
        "connections refused": gateway.refused_connections,
        "wanted subjects refused: beyond the limit, or malformed": gateway.refused_subjects,
        **{f"dropped on other topics: {reason}": n - named[reason] for reason, n in gateway.dropped.items()},
        **{f"ignored: {what}": count for what, count in gateway.ignored.items()},
    }
    return ((what, count) for what, count in counts.items() if count)


def _table(
    title: str, texts: tuple[str, ...], numbers: tuple[str, ...], notes: tuple[str, ...] = ()
) -> Table:
    """A table whose number columns are right-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in (*texts, *numbers, *notes):
        table.add_column(column, justify="right" if column in numbers else "left")
    return table


def _link_note(link: LinkStatus) -> str:
    """What went wrong, and who waits."""
    notes = [link.last_error or (f"{link.reconnects} reconnects" if link.reconnects else "")]
    notes += [f"{topic} waits {waited:.1f} ms" for topic, waited in link.waits_ms.items()]
    return "; ".join(note for note in notes if note)


def _state(good: bool, yes: str, no: str) -> str:
    return f"[green]{yes}[/green]" if good else f"[red]{no}[/red]"
