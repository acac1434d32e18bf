"""How a gateway times its own site, with a head broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
from tests.kit.waiting import eventually

from mangrove.broker.probing import Probe, ProbeOwner
from mangrove.gateway.probing import site_probe
from mangrove.gateway.probing.site_probe import HEAD, SiteProbe


class MemoryProbe:
    """A client of a broker that passes markers on after a while, or never."""

    def __init__(self, broker: str, owner: ProbeOwner) -> None:
        self.broker, self.owner, self.delay_s = broker, owner, 0.0
        self.listening = True
        self.published: list[bytes] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def publish(self, subject: str, payload: bytes) -> None:
        assert subject == "$MGV.a.in"
        self.published.append(payload)


class MemoryHead:
    """The gateway's side towards a broker that takes so long in each direction."""

    def __init__(self) -> None:
        self.ready, self.onlookers, self.forbidden = True, False, False
        self.probes: dict[str, MemoryProbe] = {}
        self.markers = 0
        self.pings = 0

    def send_marker(self, payload: bytes) -> None:
        self.markers += 1
        loop = asyncio.get_running_loop()
        for probe in self.probes.values():
            if not self.forbidden:
                loop.call_later(probe.delay_s, probe.owner.heard, probe.broker, payload)

    def ping(self, done: Callable[[], None]) -> None:
        self.pings += 1
        asyncio.get_running_loop().call_later(0.02, done)


class Site:
    """A site with an edge whose way out takes longer than the head's."""

    def __init__(self) -> None:
        self.head = MemoryHead()
        self.told: list[tuple[float, float]] = []
        self.probe = SiteProbe("a", self._probes, lambda *told: self.told.append(told))

    def _probes(self, owner: ProbeOwner) -> Mapping[str, Probe]:
        self.head.probes = {name: MemoryProbe(name, owner) for name in (HEAD, "a-edge1")}
        self.head.probes["a-edge1"].delay_s = 0.03
        return self.head.probes

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def holds() -> bool:
            return condition()

        await eventually(holds, what, timeout_s=5.0)


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(site_probe, "INTERVAL_S", 0.02)
    monkeypatch.setattr(site_probe, "UNSETTLED_INTERVAL_S", 0.01)
    return Site()


async def test_the_slowest_broker_counts_and_all_are_told(site: Site) -> None:
    running = asyncio.create_task(site.probe.run(site.head))
    await site.until(lambda: len(site.probe.latency().egress_ms) == 2, "both brokers should be timed")
    await site.until(lambda: bool(site.told) and site.told[-1][1] > 25, "the edge should count")
    assert site.probe.latency().by == "markers"
    marker = b"LMSG $MGV.a.in 16\r\n%b\r\n" % site.head.probes[HEAD].published[-1]
    site.probe.take(marker)
    assert site.probe.latency().ingress_ms is not None
    running.cancel()


async def test_an_edge_that_is_gone_no_longer_counts(site: Site) -> None:
    running = asyncio.create_task(site.probe.run(site.head))
    await site.until(lambda: bool(site.told) and site.told[-1][1] > 25, "the edge should count")
    site.head.probes["a-edge1"].listening = False
    site.probe.probe_lost("a-edge1")
    await site.until(lambda: site.told[-1][1] < 25, "only the head should count")
    running.cancel()


async def test_while_somebody_would_see_markers_there_are_none(site: Site) -> None:
    site.head.onlookers = True
    running = asyncio.create_task(site.probe.run(site.head))
    await site.until(lambda: bool(site.told), "something should be told")
    assert (site.head.markers, site.probe.latency().by) == (0, "pings")
    assert min(site.told[-1]) >= 9.5, "a way takes half a round trip, and waits are never below it"
    site.head.onlookers = False
    await site.until(lambda: site.head.markers > 0, "markers should be sent again")
    running.cancel()


async def test_a_broker_that_lets_no_marker_through_is_pinged_and_not_slow(site: Site) -> None:
    site.head.forbidden = True
    running = asyncio.create_task(site.probe.run(site.head))
    await site.until(lambda: site.probe.latency().by == "pings" and bool(site.told), "pings should do")
    assert max(site.told[-1]) < 100
    running.cancel()


async def test_a_broker_that_is_away_is_not_timed(site: Site) -> None:
    site.head.ready = False
    running = asyncio.create_task(site.probe.run(site.head))
    await asyncio.sleep(0.1)
    assert (site.head.markers, site.head.pings, site.told) == (0, 0, [])
    running.cancel()


async def test_brokers_hang_together_while_all_of_them_hear_the_same_markers(site: Site) -> None:
    running = asyncio.create_task(site.probe.run(site.head))
    await site.until(lambda: site.probe.together_at > 0, "both should hear a marker")
    edge = site.head.probes.pop("a-edge1")
    await asyncio.sleep(0.1)
    before, markers = site.probe.together_at, site.head.markers
    await site.until(lambda: site.head.markers > markers + 5, "markers are sent on")
    assert site.probe.together_at == before, "an edge that is cut off hears none of them"
    site.head.probes["a-edge1"] = edge
    await site.until(lambda: site.probe.together_at > before, "it is back")
    site.head.onlookers = True
    await asyncio.sleep(0.1)
    before, pings = site.probe.together_at, site.head.pings
    await site.until(lambda: site.head.pings > pings + 3, "pings instead of markers")
    assert site.probe.together_at == before, "pings prove nothing of edges"
    running.cancel()
