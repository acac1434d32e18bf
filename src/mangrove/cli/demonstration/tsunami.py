"""`mangrove demo tsunami`: warning centres on the day of an earthquake, and the account of every message."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.cli.output import stderr_console, stdout_console
from mangrove.errors import InputError

if TYPE_CHECKING:
    from rich.live import Live

    from mangrove.cli.tables.table import Styled, Table
    from mangrove.model.events.event_log import Event
    from mangrove.testbed.tsunami.report import Moment, TsunamiReport

REFRESH_S = 0.5
STYLES = {"low": "green", "high": "yellow", "overload": "red", "busy": "cyan"}
BAR = 30
MAX_SENTENCE = 230
EVERYDAY = frozenset(
    {
        "AgentLeads",
        "BrokerHigh",
        "BudgetKept",
        "BudgetOverrun",
        "NeighbourOnline",
        "RouteRequested",
        "TopicPlaced",
    }
)
"""Kinds of events that the story leaves out: what they lead to is told."""


def check_rabbitmq(*, wanted: bool) -> None:
    """Before anything starts: InputError with what to do if there is no RabbitMQ to be had."""
    if not wanted:
        return
    from mangrove.broker.rabbitmq.codec import require_codec
    from mangrove.broker.rabbitmq.hosting.server import rabbitmq_script

    try:
        require_codec()
        rabbitmq_script()
    except InputError as error:
        remedy = "on Debian or Ubuntu: apt-get install rabbitmq-server; or: mangrove demo tsunami --nats-only"
        hint = (
            remedy if "program" in error.message else f"{error.hint}; or: mangrove demo tsunami --nats-only"
        )
        raise InputError(error.message, hint=hint) from None


async def run(seconds: float, seed: int, directory: Path, *, rabbitmq: bool) -> TsunamiReport:
    """The whole story, with a live view of brokers and messages."""
    from rich.live import Live

    from mangrove.testbed.tsunami.centres import flows, readers
    from mangrove.testbed.tsunami.scenario import Tsunami

    console = stderr_console()
    rate = sum(flow.rate_msg_s for flow in flows())
    regional = "RabbitMQ" if rabbitmq else "NATS"
    console.print(
        f"[bold]tsunami[/bold]: a national, a regional ({regional}) and a local centre, and a relay on an "
        f"island, with keys; {len(flows())} publishers, {len(readers())} subscribers, {rate:,.0f} msg/s "
        f"(seed {seed})"
    )
    with Live(console=console, auto_refresh=False, transient=True) as live:
        demo = Tsunami(
            directory,
            seed=seed,
            rabbitmq=rabbitmq,
            look=_Watcher(live).look,
            tell=lambda text: console.print(text, markup=False, highlight=False),
        )
        return await demo.run(seconds)


class _Watcher:
    """Shows the national centre's brokers, and what arrives of each kind, while it runs."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._shown_s = -REFRESH_S
        self._before: dict[str, int] = {}

    def look(self, moment: Moment) -> None:
        from rich.console import Group
        from rich.text import Text

        from mangrove.testbed.tsunami.centres import Kind

        elapsed_s = moment.elapsed_s - self._shown_s
        if elapsed_s < REFRESH_S:
            return
        self._shown_s = moment.elapsed_s
        lines = [Text(f"{moment.phase}, {moment.elapsed_s:.0f} s", style="bold")]
        if moment.status is None:
            lines.append(Text("  the agent of the national centre does not answer"))
        else:
            for load in moment.status.brokers:
                used = max(load.utilisation.values(), default=0.0)
                line = Text(f"  {load.broker:<16}{load.state.value:<9}{used:>5.0%} ")
                lines.append(line.append("█" * min(BAR, round(used * 20)), STYLES[load.state.value]))
            congestion = moment.status.congestion
            lines.append(Text(f"  congestion: {congestion.state}, {congestion.limited} limits"))
        lines.append(Text(f"  {'a second':<16}{'offered':>9}{'withheld':>10}{'delivered':>11}"))
        for kind in Kind:
            rates = [
                max(0, moment.counts[key] - self._before.get(key, 0)) / elapsed_s
                for what in ("offered", "withheld", "delivered")
                for key in (f"{kind.value} {what}",)
            ]
            lines.append(Text(f"  {kind.value:<16}{rates[0]:>9,.0f}{rates[1]:>10,.0f}{rates[2]:>11,.0f}"))
        self._before = dict(moment.counts)
        self._live.update(Group(*lines), refresh=True)


def render(report: TsunamiReport) -> None:
    """What was expected of each phase, the account of every message, and the story."""
    console = stdout_console()
    phases_table(report).show(console)
    account_table(report).show(console)
    for line in reasons(report):
        console.print(line, highlight=False)
    console.print(verdict(report), highlight=False)
    console.print()
    story_table(report).show(console)


def phases_table(report: TsunamiReport) -> Table:
    """Each phase, whether it went as expected, and what share of each kind was in time in it."""
    from mangrove.cli.tables.table import Table, details_column, number_column, word_column
    from mangrove.testbed.tsunami.centres import Kind

    table = Table(
        "What happened, and what of the messages sent meanwhile was in time",
        word_column("phase"),
        number_column("lasted"),
        *(number_column(kind.value) for kind in Kind),
        details_column(""),
    )
    for phase in report.phases:
        table.section(f"{'✓' if phase.held else '✗'} {phase.expectation}", "green" if phase.held else "red")
        cells = []
        for kind in Kind:
            share = phase.shares.get(kind)
            cells.append(f"{share.in_time / share.due:.1%}" if share is not None and share.due else "–")
        table.add(f"  {phase.name}", f"{phase.seconds:.1f} s", *cells)
    return table


def account_table(report: TsunamiReport) -> Table:
    """Every message, once for each of its subscribers."""
    from mangrove.cli.tables.table import Table, bad, name_column, number_column

    def wrong(count: int) -> str | Styled:
        return bad(f"{count:,}") if count else "0"

    table = Table(
        "Every message, due once at each subscriber: arrived, withheld, dropped or lost",
        name_column("topic"),
        *map(number_column, ("sent", "due", "arrived", "timely", "withheld", "dropped", "lost", "twice")),
    )
    rows: dict[str, tuple[int, ...]] = {
        each.topic: (
            each.sent,
            each.due,
            each.delivered,
            each.in_time,
            sum(each.withheld.values()),
            sum(each.dropped.values()),
            each.lost,
            each.duplicated,
        )
        for each in report.topics
    }
    rows["all"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    for name, (*fine, lost, twice) in rows.items():
        table.add(name, *(f"{figure:,}" for figure in fine), wrong(lost), wrong(twice))
    return table


def reasons(report: TsunamiReport) -> list[str]:
    """Why messages were withheld or dropped."""
    withheld: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for each in report.topics:
        withheld.update(each.withheld)
        dropped.update(each.dropped)
    lines = [f"Withheld by publishers: {_listed(withheld)}." if withheld else "Nothing was withheld."]
    lines.append(
        f"Dropped by gateways and clients: {_listed(dropped)}." if dropped else "Nothing was dropped."
    )
    copies = sum(each.copies_dropped for each in report.topics)
    if copies:
        lines.append(f"Second copies of alerts that ended on their way: {copies:,}; the others arrived.")
    return lines


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.most_common())


def verdict(report: TsunamiReport) -> str:
    """The account in one sentence."""
    from mangrove.testbed.tsunami.centres import Kind

    due = sum(each.due for each in report.topics)
    alerts = [each for each in report.topics if each.kind is Kind.ALERT]
    arrived, wanted = sum(each.delivered for each in alerts), sum(each.due for each in alerts)
    if report.problems():
        return f"[red]The account of {due:,} deliveries does not add up.[/red]"
    return f"All {due:,} deliveries are accounted for; {arrived:,} of {wanted:,} alerts arrived."


def story_table(report: TsunamiReport) -> Table:
    """What agents and gateways decided, phase by phase: of each kind of event the first, and its cause."""
    from textwrap import shorten

    from mangrove.cli.federation.story import COLOURS
    from mangrove.cli.tables.table import Styled, Table, details_column, number_column, word_column

    table = Table(
        "The story (← because of)", number_column("after"), word_column("event"), details_column("")
    )
    for phase in report.phases:
        start, end = phase.start_s, phase.start_s + phase.seconds
        events = [each for each in report.story if start <= each.at - report.began_at < end]
        told = _first_of_each_kind(events)
        if not told:
            continue
        table.section(phase.name)
        for event, more in told:
            words = shorten(event.happening.sentence(), MAX_SENTENCE, placeholder=" …")
            words += f" ({more} more of this kind)" if more else ""
            words += f"  ← {event.cause}" if event.cause else ""
            after = f"{event.at - report.began_at:.1f} s"
            table.add(after, event.id, Styled(words, COLOURS[event.happening.tone.value]))
    return table


def _first_of_each_kind(events: list[Event]) -> list[tuple[Event, int]]:
    counts = Counter(event.kind for event in events)
    first: dict[str, Event] = {}
    for event in events:
        first.setdefault(event.kind, event)
    return [(event, counts[kind] - 1) for kind, event in first.items() if kind not in EVERYDAY]
