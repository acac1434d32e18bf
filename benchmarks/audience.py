"""Topics published where their audience is, against at the head: what the head broker is spared.

A head with two edges and 20 topics whose subscribers are all in the domain, each topic's at one edge. The
same traffic twice, with `publish_at_edges` off and on; measured are the bytes that the head takes in and
gives out, from its own counters, and that every message arrives once and in order, also while publishers
move.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from rich.console import Console

from mangrove.agent.launcher import Launcher
from mangrove.broker.kinds import kind_of
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.client import Message, connect
from mangrove.client.publisher import Publish
from mangrove.model.balancing import Balancing
from mangrove.model.federation import Domain, Edge, Federation
from mangrove.model.hosting.broker_status import BrokerStatus

DOMAIN = "harbour"
TOPICS = 20
RATE_MSG_S = 2000.0
SETTLE_S = 15.0
SECONDS, QUICK_SECONDS = 15.0, 5.0
RATIO_BAR = 0.2
TICK_S = 0.01


def run(seed: int, quick: bool) -> dict[str, object]:
    """Both, one after the other. Nothing is random here."""
    seconds = QUICK_SECONDS if quick else SECONDS
    cases = {
        name: run_async(_measured(at_edges, seconds), asyncio.new_event_loop)
        for name, at_edges in (("at the head", False), ("at the edges", True))
    }
    ratio = cases["at the edges"]["out_bytes_s"] / max(cases["at the head"]["out_bytes_s"], 1.0)
    return {"seconds": seconds, "cases": cases, "head_output_ratio": ratio}


async def _measured(at_edges: bool, seconds: float) -> dict[str, float]:
    federation = Federation(
        name="audience",
        domains={DOMAIN: Domain(name=DOMAIN, base_port=1, edges=(Edge(), Edge()))},
        balancing=Balancing(publish_at_edges=at_edges),
    )
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        async with (
            Launcher(federation, Path(directory), ephemeral=True) as launched,
            connect(run_dir=Path(directory), domain=DOMAIN) as subscriber,
            connect(run_dir=Path(directory), domain=DOMAIN) as publisher,
        ):
            arrived: dict[str, list[int]] = {f"room.{number}": [] for number in range(TOPICS)}

            async def take(message: Message) -> None:
                arrived[message.subject].append(int(message.data[:12]))

            for topic in arrived:
                await subscriber.subscribe(topic, callback=take)
            sending = asyncio.create_task(_publish(publisher.publish, list(arrived)))
            await asyncio.sleep(SETTLE_S)
            head = launched.endpoints[DOMAIN].head
            before, start = await kind_of(head.kind).status(head, "head"), time.monotonic()
            await asyncio.sleep(seconds)
            after, elapsed = await kind_of(head.kind).status(head, "head"), time.monotonic() - start
            sending.cancel()
            sent = (await asyncio.gather(sending, return_exceptions=True))[0]
            assert isinstance(sent, dict)
            await publisher.flush()
            await asyncio.sleep(1.0)
            return _figures(before, after, elapsed, sent, arrived)


async def _publish(publish: Publish, topics: list[str]) -> dict[str, int]:
    """Publish until cancelled; how many were sent on each topic."""
    sent = dict.fromkeys(topics, 0)
    padding = b" " * 244
    loop = asyncio.get_running_loop()
    start, done = loop.time(), 0
    try:
        while True:
            due = int((loop.time() - start) * RATE_MSG_S)
            while done < due:
                topic = topics[done % len(topics)]
                await publish(topic, b"%012d" % sent[topic] + padding)
                sent[topic] += 1
                done += 1
            await asyncio.sleep(TICK_S)
    except asyncio.CancelledError:
        return sent


def _figures(
    before: BrokerStatus,
    after: BrokerStatus,
    elapsed_s: float,
    sent: dict[str, int],
    arrived: dict[str, list[int]],
) -> dict[str, float]:
    exact = all(numbers == list(range(sent[topic])) for topic, numbers in arrived.items())
    return {
        "in_bytes_s": (after.bytes_in - before.bytes_in) / elapsed_s,
        "out_bytes_s": (after.bytes_out - before.bytes_out) / elapsed_s,
        "sent": sum(sent.values()),
        "exact": float(exact),
    }


def render(result: dict[str, object], console: Console) -> None:
    """The head's traffic, and the ratio."""
    table = Table(
        "What the head broker carries",
        name_column("published"),
        *map(number_column, ("in, kB/s", "out, kB/s", "messages", "once, in order")),
    )
    cases = result["cases"]
    assert isinstance(cases, dict)
    for name, case in cases.items():
        table.add(
            name,
            f"{case['in_bytes_s'] / 1e3:,.0f}",
            f"{case['out_bytes_s'] / 1e3:,.0f}",
            f"{case['sent']:,.0f}",
            "yes" if case["exact"] else "no",
        )
    table.show(console)
    console.print(f"The head gives out {result['head_output_ratio']:.1%} of what it did.")


def missed(result: dict[str, object]) -> list[str]:
    """The bars."""
    cases, ratio = result["cases"], result["head_output_ratio"]
    assert isinstance(cases, dict)
    assert isinstance(ratio, float)
    wrong = [name for name, case in cases.items() if not case["exact"]]
    lines = [f"{name}: not every message came once, in order" for name in wrong]
    if ratio > RATIO_BAR:
        lines.append(f"the head still gives out {ratio:.1%} (bar {RATIO_BAR:.0%})")
    return lines
