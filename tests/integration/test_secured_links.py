"""Links of running gateways with keys: they are renewed under load without loss, and ended by revocation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.agent.inspection import gateway_status, wait_for_interest
from mangrove.agent.story import read_events
from mangrove.config import parse_federation
from mangrove.gateway.trust.refusals import Refusal
from mangrove.host.keys.making import revoke
from mangrove.host.keys.rotation import Part, rotate
from mangrove.model.security.users import FIRST_CLIENT
from mangrove.model.status import GatewayStatus
from mangrove.overlay.events.happenings import LinkFailed
from mangrove.testbed.accounting import Figures, Span, figures
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.ring.scenario import head_address

CHAIN = """
federation: chain
domains: {a: {}, b: {gateways: 2}, c: {}}
links:
  - {between: [a, b], delay_ms: 3}
  - {between: [b, c], delay_ms: 3}
"""


@pytest.fixture(scope="module")
async def chain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    federation = parse_federation(CHAIN, "chain").require()
    directory = tmp_path_factory.mktemp("state") / "chain"
    async with LocalFederation(federation, directory, ephemeral=True, agents=False, secured=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


def took_over(before: list[GatewayStatus], after: list[GatewayStatus]) -> bool:
    """Whether another gateway of b carries, or the same one anew."""
    return before[1].epoch != after[1].epoch


class Renewal(NamedTuple):
    """The gateways before and after their links were renewed, and what became of a stream meanwhile."""

    before: list[GatewayStatus]
    after: list[GatewayStatus]
    account: Figures


async def renew(chain: Running, subject: str) -> Renewal:
    """Replace the keys of all gateways under load, and wait until their links or another gateway use them."""
    launched = chain.launched
    assert launched.keys is not None
    await chain.at_rest()
    before = [await chain.gateway(domain) for domain in "abc"]
    renewals = [[link.renewals for link in each.links] for each in before]
    topic = ProbeTopic(subject, 500.0, head_address(launched, "c", FIRST_CLIENT))
    async with ProbeTraffic(head_address(launched, "a", FIRST_CLIENT), [topic]) as probes:
        await probes.subscribe()
        assert await wait_for_interest(launched.runtime(), {"c": 1})
        await probes.publish()
        began = time.monotonic_ns()
        await asyncio.sleep(0.5)
        await asyncio.to_thread(rotate, launched.keys, parts=(Part.GATEWAY,))

        async def renewed() -> bool:
            now = [await chain.gateway(domain) for domain in "abc"]
            if took_over(before, now):
                return True
            return all(
                link.up and link.renewals > earlier
                for each, counts in zip(now, renewals, strict=True)
                for link, earlier in zip(each.links, counts, strict=True)
            )

        await eventually(renewed, "all links should be renewed")
        await asyncio.sleep(0.5)
        ended = time.monotonic_ns()
        probes.stop_publishing()
        account = figures((await probes.collect())[topic.subject], Span(began, ended), 1000.0)
    return Renewal(before, [await chain.gateway(domain) for domain in "abc"], account)


async def test_all_links_are_renewed_under_load_and_nothing_is_lost(chain: Running) -> None:
    """There is no second way: a link that failed would show as a gap, and a restart as a duplicate."""
    for attempt in range(3):  # on a busy machine the two gateways of b may change places by themselves
        before, after, account = await renew(chain, f"probe.renewal.{attempt}")
        if not took_over(before, after):
            break
        await chain.links_up()
    assert account.sent > 500
    assert (account.lost, account.duplicated, account.out_of_order) == (0, 0, 0)
    for earlier, now in zip(before, after, strict=True):
        assert all(link.secured for link in now.links)
        assert [link.reconnects for link in now.links] == [link.reconnects for link in earlier.links]
        assert now.epoch == earlier.epoch, "nobody took over, either"


async def test_a_revoked_neighbour_is_out_and_the_story_says_why(chain: Running) -> None:
    launched = chain.launched
    assert launched.keys is not None
    await asyncio.to_thread(revoke, launched.keys, "c")

    async def out() -> bool:
        status = await gateway_status(launched.endpoints["b"])
        if status is None:  # its brokers read what is revoked, too
            return False
        links = {link.peer: link for link in status.links}
        return not links["c"].up and links["a"].up and status.refused_by_reason.get(Refusal.WITHDRAWN, 0) > 0

    await eventually(out, "the link of b to c should be closed, and that to a stand")

    async def told() -> bool:
        happenings = [
            event.happening for event in read_events(launched.run.events) if event.id.startswith("b")
        ]
        failed = [each for each in happenings if isinstance(each, LinkFailed) and each.peer == "c"]
        return any("revoked" in each.reason for each in failed)

    await eventually(told, "the story should tell that it was revoked")
