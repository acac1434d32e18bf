"""The tables of `mangrove status`, one function for each; an empty table is not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mangrove.cli.agents.member_tables import members_table, several
from mangrove.cli.federation.contract_tables import (
    answering,
    arrivals_table,
    asks_table,
    promises_table,
    routes_table,
)
from mangrove.cli.federation.failure_tables import STYLES, health_of
from mangrove.cli.federation.load_tables import agent_note
from mangrove.cli.federation.region_tables import endangered_now, exposed_now
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
from mangrove.model.shared_names import gateway_process
from mangrove.model.versions.document import FIRST_VERSION

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.mediation.figures import TransformFigures
    from mangrove.model.status import FederationStatus, GatewayStatus, LinkStatus, MirrorFigures, PairStatus

BUSIEST = 10
AWAY = "away"


def show_status(found: FederationStatus, console: Console) -> None:
    """All tables that have rows, and the warnings."""
    from rich.markup import escape

    for make in (
        _hosts,
        _brokers,
        _gateways,
        _agents,
        _members,
        _links,
        routes_table,
        promises_table,
        asks_table,
        endangered_now,
        exposed_now,
        arrivals_table,
        _busiest,
        _drops,
        _refused,
        _others,
    ):
        table = make(found)
        if table:
            table.show(console)
    if versions := _versions(found):
        console.print(escape(versions), highlight=False)
    for domain in found.domains:
        if domain.hosts:
            console.print(escape(f"{domain.domain} has {domain.loss_of_a_host}."), highlight=False)
    alone = [domain for domain in found.domains if domain.loss_of_a_host and not domain.hosts]
    if alone:
        names = (
            "each domain" if len(alone) == len(found.domains) else ", ".join(each.domain for each in alone)
        )
        console.print(escape(f"{names} has {alone[0].loss_of_a_host}."), highlight=False)
    for warning in found.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}")


def _versions(found: FederationStatus) -> str:
    """Which contracts hold where, once they are not everywhere those of the file."""
    at: dict[int, list[str]] = {}
    for domain in found.domains:
        if domain.gateway is not None:
            at.setdefault(domain.gateway.version, []).append(domain.domain)
    if not at or max(at) == FIRST_VERSION:
        return ""
    if len(at) == 1:
        return f"Contracts of version {max(at)} are in force (`mangrove history`)."
    told = [f"{version} at {', '.join(domains)}" for version, domains in sorted(at.items(), reverse=True)]
    return f"Contracts differ in their version: {'; '.join(told)} (`mangrove history`)."


def _hosts(found: FederationStatus) -> Table:
    table = Table(
        "Hosts",
        name_column("host"),
        word_column("state"),
        word_column("address", USEFUL),
        details_column("brokers"),
        details_column("agent"),
        details_column("note"),
    )
    for domain in found.domains:
        for host in domain.hosts:
            notes = [f"down: {', '.join(host.down)}"] if host.down else []
            notes += [f"switched off: {', '.join(host.switched_off)}"] if host.switched_off else []
            table.add(
                f"{domain.domain} {host.host}",
                _state(host.answers and not host.down, "up", "in part" if host.answers else "lost"),
                host.address,
                ", ".join(name.removeprefix(f"{domain.domain}-") for name in host.brokers),
                host.agent,
                "; ".join(notes),
                matters=not host.answers or bool(host.down),
            )
    return table


def _brokers(found: FederationStatus) -> Table:
    table = Table(
        f"Brokers of {found.federation}",
        name_column("broker"),
        word_column("state"),
        word_column("uptime", USEFUL),
        number_column("clients"),
        word_column("NATS clients at", EXTRA),
        word_column("MQTT clients at", EXTRA),
        number_column("leaf nodes", EXTRA),
        number_column("subscriptions", USEFUL),
        number_column("msgs in"),
        number_column("msgs out"),
        number_column("memory", USEFUL),
    )
    for domain in found.domains:
        for broker in domain.brokers:
            health = health_of(domain.agent, broker.name) if broker.reachable else ""
            table.add(
                broker.name,
                Styled(health, STYLES[health]) if health else _state(broker.reachable, "up", "unreachable"),
                broker.uptime,
                f"{broker.connections:,}",
                broker.url.rpartition("/")[2].rpartition("@")[2],
                broker.mqtt,
                f"{broker.attached_brokers:,}",
                f"{broker.subscriptions:,}",
                f"{broker.messages_in:,}",
                f"{broker.messages_out:,}",
                f"{broker.memory_bytes / 1e6:.0f} MB",
                matters=not broker.reachable or bool(health),
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
            domain.domain if gateway.pair is None else gateway.pair.process,
            _state(gateway.head_connected, "up" if gateway.pair is None else "active", "no head broker"),
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
        if gateway.pair is not None:
            away = gateway.pair.other == AWAY
            table.add(
                gateway_process(domain.domain, 3 - gateway.pair.number),
                bad(AWAY) if away else good(gateway.pair.other),
                matters=away,
            )
    return table


def _agents(found: FederationStatus) -> Table:
    table = Table(
        "Agents",
        name_column("agent"),
        word_column("state"),
        number_column("uptime", USEFUL),
        number_column("term", USEFUL),
        number_column("clients"),
        number_column("topics"),
        number_column("moves"),
        details_column("note"),
        elsewhere="mangrove load",
    )
    for domain in found.domains:
        agent = domain.agent
        if agent is None:
            if domain.agent_expected:
                table.add(domain.domain, bad("does not answer"), matters=True)
            continue
        table.add(
            domain.domain,
            _state(agent.leads, "leads", "follows"),
            f"{agent.uptime_s:,.0f}s",
            f"{agent.term}",
            f"{agent.clients:,}",
            f"{agent.records:,}",
            f"{agent.moves:,}",
            agent_note(agent),
            matters=not agent.leads or agent.paused is not None,
        )
    return table


def _members(found: FederationStatus) -> Table:
    told = {domain.domain: domain.agent for domain in found.domains if domain.agent is not None}
    return members_table(several(told))


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
    for domain, gateway in answering(found):
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


def _drops(found: FederationStatus) -> Table:
    table = Table(
        "Dropped messages",
        name_column("gateway"),
        name_column("topic"),
        number_column("count"),
        details_column("reason"),
    )
    for domain, gateway in answering(found):
        for drop in gateway.drops:
            table.add(domain, drop.topic, f"{drop.count:,}", drop.reason)
    return table


def _refused(found: FederationStatus) -> Table:
    table = Table(
        "Refused by access rules",
        name_column("gateway"),
        name_column("rule"),
        number_column("count"),
        details_column("what"),
    )
    for domain, gateway in answering(found):
        for each in gateway.access:
            what = f"may not {each.crossing.phrase(each.domain)}, such as {each.example}"
            table.add(domain, each.rule, f"{each.count:,}", what)
    return table


def _others(found: FederationStatus) -> Table:
    table = Table("Also counted", name_column("gateway"), number_column("count"), details_column("what"))
    for domain, gateway in answering(found):
        for what, count in _also_counted(gateway):
            table.add(domain, f"{count:,}", what)
    return table


def _counted_of_pair(pair: PairStatus) -> dict[str, int]:
    return {
        "times that this gateway took over": pair.takeovers,
        "frames that the gateway before said it delivered": pair.names_told,
        "messages sent by the gateway before, when it was last heard": pair.sent_before,
        "messages delivered by the gateway before, when it was last heard": pair.delivered_before,
        "messages that a gateway let go of when it was displaced": pair.given_up,
        "times that this gateway was held up, and asked before it delivered": pair.fences,
        "strangers and nonsense on the line between the two gateways": pair.ignored,
    }


def _counted_of_mirrors(mirrors: MirrorFigures) -> dict[str, int]:
    return {
        "edge brokers that the gateway is not attached to for second copies": sum(
            not attached for attached in mirrors.edges.values()
        ),
        "copies from publishers of which another one had left before": mirrors.repeated_departing,
        "copies from other domains of which another one had arrived before": mirrors.repeated_arriving,
        "second copies handed to edge brokers": mirrors.copies,
        "runs of second copies that an edge broker could not take": mirrors.left_out,
    }


def _counted_of_transforms(transforms: dict[str, TransformFigures]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, figures in transforms.items():
        counts[f"messages transformed by {name}"] = figures.transformed
        counts[f"messages that wait for the transform {name}"] = figures.waiting
        counts[f"processes started for the transform {name}"] = figures.processes
    return counts


def _also_counted(gateway: GatewayStatus) -> Iterator[tuple[str, int]]:
    """Everything that a gateway counted and that has no column of its own, as far as it happened."""
    named: Counter[str] = Counter()
    for drop in gateway.drops:
        named[drop.reason] += drop.count
    counts = {
        "requests and replies sent": gateway.requests_sent,
        "requests and replies delivered": gateway.requests_delivered,
        "messages for queue groups sent on to another domain": gateway.sent_on,
        "copies kept back, as nobody there selects them by their headers": gateway.kept_back,
        "bodies refused: malformed, or not as they were sealed": gateway.malformed_bodies,
        "bodies of confidential topics sealed": gateway.sealing.sealed,
        "bodies of confidential topics opened": gateway.sealing.opened,
        "sealed bodies sent back to their origin, their destination being lost": gateway.sealing.turned_back,
        **{f"bodies refused: {why}": count for why, count in gateway.sealing.refused.items()},
        **_counted_of_transforms(gateway.transforms),
        "connections refused": gateway.refused_connections,
        **{f"connections refused: {why}": count for why, count in gateway.refused_by_reason.items()},
        **({} if gateway.pair is None else _counted_of_pair(gateway.pair)),
        **_counted_of_mirrors(gateway.mirroring),
        "wanted subjects refused: beyond the limit, or malformed": gateway.refused_subjects,
        "gaps in a publisher's order that were not filled in time": gateway.gaps,
        "frames delivered out of order, after their gap was given up": gateway.out_of_turn,
        "subjects with a limit on what leaves the domain": gateway.limits.subjects,
        "clients with a limit on what leaves the domain": gateway.limits.clients,
        "limits of the agent on what enters the domain": gateway.limits.arrivals,
        "subjects on which a client has leave to be silent": gateway.silence.leaves,
        "clients that ask for leave to be silent": gateway.silence.clients,
        "leaves to be silent taken back": gateway.silence.taken_back,
        "clients that do not know it yet": gateway.silence.awaited,
        **{f"no leave to be silent: {why}": count for why, count in gateway.silence.refused.items()},
        **{f"dropped on other topics: {reason}": n - named[reason] for reason, n in gateway.dropped.items()},
        **{f"ignored: {what}": count for what, count in gateway.ignored.items()},
    }
    return ((what, count) for what, count in counts.items() if count)


def _busiest(found: FederationStatus) -> Table:
    """Over all gateways: what a topic's sites sent and received across domains."""
    sent: Counter[str] = Counter()
    delivered: Counter[str] = Counter()
    for _, gateway in answering(found):
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


def _link_note(link: LinkStatus) -> str:
    """What went wrong, and who waits."""
    notes = [link.last_error or (f"{link.reconnects} reconnects" if link.reconnects else "")]
    notes += [f"{topic} waits {waited:.1f} ms" for topic, waited in link.waits_ms.items()]
    notes += [f"{topic} overruns its budget in {share:.0%}" for topic, share in link.overruns.items()]
    dropped = link.management.dropped
    notes += [f"{count:,} of the agents' messages dropped: {reason}" for reason, count in dropped.items()]
    return "; ".join(note for note in notes if note)


def _state(is_good: bool, yes: str, no: str) -> Styled:
    return good(yes) if is_good else bad(no)
