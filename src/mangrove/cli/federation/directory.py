"""`mangrove directory`: who publishes what where, and which brokers serve it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.load import DomainOption, chosen_domains, no_agent
from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.agents.directory import DirectoryRecord, ServedTopic
    from mangrove.model.endpoints import DomainEndpoints

SHOWN = 60
PAGE = 1_000


def directory(
    topic: Annotated[
        str | None, typer.Argument(help="A topic or a pattern: all topics that overlap it; none: all.")
    ] = None,
    domain: DomainOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="How many topics of a domain. [default: 60; with --json all]")
    ] = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who publishes a topic, its primary and mirror broker, since when and by which decision."""
    from mangrove.host.runtime_file import find_running
    from mangrove.model.subjects import subject_problem

    if topic is not None and (problem := subject_problem(topic, wildcards=True)):
        raise InputError(f"{topic!r} is no topic: {problem}")
    domains = chosen_domains(find_running(federation, run_dir), domain)
    run_async(_directory(domains, topic or "", limit, as_json))


async def _directory(domains: list[DomainEndpoints], topic: str, limit: int | None, as_json: bool) -> None:
    wanted = limit if limit is not None else (None if as_json else SHOWN)
    found: dict[str, list[ServedTopic]] = {}
    more: set[str] = set()
    for endpoints in domains:
        topics = await _ask(endpoints, topic, wanted, stderr_console())
        if topics is not None:
            found[endpoints.domain], unseen = topics
            if unseen:
                more.add(endpoints.domain)
    if not found:
        raise no_agent(domains)
    if as_json:
        print_json(
            {
                "domains": {
                    each.domain: (
                        {"topics": found[each.domain], "more": each.domain in more}
                        if each.domain in found
                        else None
                    )
                    for each in domains
                }
            }
        )
        return
    show_directory(found, more, topic, stdout_console())
    for each in domains:
        if each.domain not in found:
            stderr_console().print(f"the agent of {each.domain} does not answer")


async def _ask(
    endpoints: DomainEndpoints, topic: str, wanted: int | None, console: Console
) -> tuple[list[ServedTopic], bool] | None:
    """Topics page by page, at most so many, and whether there are more; None if nobody answers."""
    from mangrove.agent.management import ManagementConnection
    from mangrove.model.agents.directory import DirectoryQuestion

    topics: list[ServedTopic] = []
    after, more = "", True
    async with ManagementConnection(endpoints) as management:
        with console.status(f"reading the directory of {endpoints.domain} …") as progress:
            while more and (wanted is None or len(topics) < wanted):
                limit = PAGE if wanted is None else min(PAGE, wanted - len(topics))
                answer = await management.directory(DirectoryQuestion(topic=topic, after=after, limit=limit))
                if answer is None:
                    return None
                topics += answer.topics
                more = answer.more and bool(answer.topics)
                after = topics[-1].topic if topics else ""
                progress.update(f"reading the directory of {endpoints.domain}: {len(topics):,} topics …")
    return topics, more


def show_directory(found: dict[str, list[ServedTopic]], more: set[str], topic: str, console: Console) -> None:
    """A table for each domain; `more` are those that have further topics."""
    from mangrove.cli.tables.table import (
        EXTRA,
        USEFUL,
        Table,
        details_column,
        name_column,
        number_column,
        word_column,
    )

    for domain, topics in found.items():
        if not topics:
            what = f"nothing that overlaps {topic}" if topic else "nothing yet"
            console.print(f"the directory of {domain} has {what}")
            continue
        table = Table(
            f"Directory of {domain}" + (" (the first topics)" if domain in more else ""),
            name_column("topic"),
            name_column("published in"),
            name_column("primary"),
            name_column("mirror"),
            word_column("since"),
            word_column("decision"),
            number_column("subscribers", USEFUL),
            word_column("class", EXTRA),
            number_column("deadline", EXTRA),
            details_column("note"),
            max_rows=len(topics),
        )
        for each in topics:
            record = each.record
            table.add(
                each.topic,
                ", ".join(source.source for source in each.published_by) or "–",
                ", ".join(record.edges) if record is not None and record.edges else "–",
                _mirror(record),
                _since(record.since) if record is not None and record.since else "",
                record.decision if record is not None else "",
                f"{each.subscribers:,}",
                " ".join(part for part in (each.publisher_class, each.subscriber_class) if part),
                "" if each.deadline_ms is None else f"{each.deadline_ms:g} ms",
                _note(each),
            )
        table.show(console)
        if domain in more:
            console.print("… and more; --limit N shows N of them, --json all")


def _note(topic: ServedTopic) -> str:
    """Where it is published, who is served in other domains, and why new subscribers are where they are."""
    record = topic.record
    notes = [f"published at {record.publish_at}"] if record is not None and record.publish_at else []
    notes += [f"{count:,} at {broker}" for broker, count in sorted(topic.elsewhere.items())]
    if topic.steering:
        notes.append(topic.steering + (f" ({topic.steered_by})" if topic.steered_by else ""))
    return "; ".join(notes)


def _mirror(record: DirectoryRecord | None) -> str:
    """The broker that has it a second time, and how it is used."""
    if record is None or not record.mode:
        return "–"
    return f"{record.mirror} ({record.mode.value})" if record.mirror else "no second broker"


def _since(at: float) -> str:
    """The time of day, or the date if that is longer ago."""
    recent = time.time() - at < 86_400
    return time.strftime("%H:%M:%S" if recent else "%Y-%m-%d", time.localtime(at))
