"""Brokers of either domain die under mirrored topics: whatever dies, every message crosses once.

The SDK's part is played by plain clients on both planes. They tell copies apart by number, as the SDK does by
id; that the gateways pass only one copy on is seen from their accounts.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from time import monotonic

import pytest
from tests.kit.processor_waits import ProcessorWaits
from tests.kit.two_sites import Site, Talk, at_head, joined, two_sites
from tests.kit.waiting import eventually

from mangrove.model.topics import Contract, Mirror, TopicRules

RULES = TopicRules((Contract(match="twice.>", mirror=Mirror.BOTH),))
RATE_S = 2000.0


@pytest.fixture(scope="module")
async def sites(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Site]]:
    async with two_sites(tmp_path_factory.mktemp("sites"), RULES) as running:
        yield running


async def talk_while(sites: dict[str, Site], subject: str, victim: str, number: int) -> tuple[Talk, float]:
    """Let somebody die, or freeze, while messages cross; then all is put right again.

    With the talk, the time when it began, by `monotonic`.
    """
    domain, _, name = victim.partition(".")
    for site in sites.values():
        await at_head(site)
    mirrored = subject.startswith("twice.")
    talk = Talk(sites, subject, mirrored=mirrored)
    await talk.open()
    began = monotonic()
    await talk.publish(RATE_S, 1.6, 0.3, lambda: sites[domain].signal(name, number))

    async def all_came() -> bool:
        return not talk.missing() if mirrored else talk.sent in talk.arrived

    with contextlib.suppress(AssertionError):  # what is missing is told by the caller
        await eventually(all_came, "everything should cross", 10)
    await asyncio.sleep(0.3)
    await talk.close()
    if number == signal.SIGSTOP:
        sites[domain].signal(name, signal.SIGCONT)
    for site in sites.values():
        await eventually(lambda site=site: joined(site), f"{site.domain} should be whole again")  # type: ignore[misc]
    return talk, began


@pytest.mark.parametrize("victim", ["a.head", "a.edge2", "b.head", "b.edge1", "b.edge2"])
async def test_no_message_is_lost_nor_passed_on_twice_when_a_broker_dies(
    sites: dict[str, Site], victim: str
) -> None:
    for site in sites.values():
        await at_head(site)
    before = {name: await site.status() for name, site in sites.items()}
    talk, _ = await talk_while(sites, "twice.x", victim, signal.SIGKILL)
    assert talk.missing() == []
    after = {name: await site.status() for name, site in sites.items()}
    sent = after["a"].sent - before["a"].sent
    delivered = after["b"].delivered - before["b"].delivered
    assert (
        sent
        == delivered
        == after["b"].busiest_delivered["twice.x"] - before["b"].busiest_delivered.get("twice.x", 0)
    )
    assert sent - talk.sent in range(1, 30), "and the few that found out whether the way is open"
    assert after["a"].mirroring.repeated_departing > before["a"].mirroring.repeated_departing
    assert after["a"].dropped == after["b"].dropped == {}


async def test_no_message_is_lost_when_a_head_freezes(sites: dict[str, Site]) -> None:
    talk, _ = await talk_while(sites, "twice.y", "b.head", signal.SIGSTOP)
    assert talk.missing() == []


@pytest.mark.parametrize("victim", ["a.head", "b.head"])
async def test_without_a_mirror_the_federation_goes_on_by_the_next_broker(
    sites: dict[str, Site], victim: str
) -> None:
    """What was in flight in the dead broker is lost, and nothing after."""
    for site in sites.values():
        await at_head(site)
    carriers = [site.processes[name].pid for site in sites.values() for name in ("head", "edge1", "gateway")]
    waits = ProcessorWaits([pid for pid in carriers if pid is not None])
    waits.start()
    try:
        talk, began = await talk_while(sites, "once.x", victim, signal.SIGKILL)
    finally:
        waits.stop()
    missing = talk.missing()
    assert missing == list(range(missing[0], missing[-1] + 1)) if missing else True
    if missing:
        # Messages are published evenly, so their numbers tell over which time they were lost.
        first_s, end_s = (began + number / RATE_S for number in (missing[0], missing[-1] + 1))
        assert waits.between(first_s, end_s) < 0.5
    assert talk.sent in talk.arrived, "the last one crossed"
