"""`mangrove status`: the state of a running federation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.cli.up import RunDirOption
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.status import FederationStatus

FederationOption = Annotated[
    str | None, typer.Option("--federation", "-f", help="Which one, if several run on this machine.")
]


def status(
    federation: FederationOption = None, run_dir: RunDirOption = None, as_json: JsonOption = False
) -> None:
    """Show brokers, links, interest and drops. Exit code 1 if something is down."""
    from mangrove.agent.inspection import inspect
    from mangrove.config.runtime_file import find_running

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
    from rich.table import Table

    brokers = Table(title=f"Brokers of {found.federation}", title_justify="left")
    links = Table(title="Links", title_justify="left")
    drops = Table(title="Dropped messages", title_justify="left")
    for column in (
        "broker",
        "state",
        "clients",
        "leaf nodes",
        "subscriptions",
        "msgs in",
        "msgs out",
        "memory",
    ):
        brokers.add_column(column, justify="left" if column in ("broker", "state") else "right")
    for column in ("link", "state", "frames out", "frames in", "bytes out", "bytes in", "waiting", "note"):
        links.add_column(column, justify="left" if column in ("link", "state", "note") else "right")
    for column in ("gateway", "topic", "reason", "count"):
        drops.add_column(column, justify="right" if column == "count" else "left")
    notes: list[str] = []
    for domain in found.domains:
        for broker in domain.brokers:
            brokers.add_row(
                broker.name,
                _state(broker.reachable, "up", "unreachable"),
                f"{broker.connections:,}",
                f"{broker.leaf_nodes:,}",
                f"{broker.subscriptions:,}",
                f"{broker.in_msgs:,}",
                f"{broker.out_msgs:,}",
                f"{broker.memory_bytes / 1e6:.0f} MB",
            )
        gateway = domain.gateway
        if gateway is None:
            notes.append(f"[red]the gateway of {domain.domain} does not answer[/red]")
            continue
        if not gateway.head_connected:
            notes.append(f"[red]the gateway of {domain.domain} has lost its head broker[/red]")
        for link in gateway.links:
            links.add_row(
                f"{domain.domain} → {link.peer}",
                _state(link.up, "up", "down"),
                f"{link.frames_out:,}",
                f"{link.frames_in:,}",
                f"{link.bytes_out:,}",
                f"{link.bytes_in:,}",
                f"{link.queued_bytes:,} B",
                link.last_error or (f"{link.reconnects} reconnects" if link.reconnects else ""),
            )
        for drop in gateway.drops:
            drops.add_row(domain.domain, drop.topic, drop.reason, f"{drop.count:,}")
    console.print(brokers)
    console.print(links)
    if drops.row_count:
        console.print(drops)
    for note in notes:
        console.print(note)


def _state(good: bool, yes: str, no: str) -> str:
    return f"[green]{yes}[/green]" if good else f"[red]{no}[/red]"
