"""The page for collectors, read by Prometheus' own parser."""

from __future__ import annotations

from pathlib import Path

import httpx
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.simulated_sites import simulated_sites
from tests.kit.waiting import eventually

from mangrove.model.metrics.catalogue import CATALOGUE
from mangrove.model.metrics.topics import MAX_TOPICS
from mangrove.model.topic_counts import TopicTally, TopicTotals
from mangrove.monitor.feed.live_feed import LiveFeed
from mangrove.monitor.feed.snapshot import Presence, Snapshot
from mangrove.monitor.feed.source import Given
from mangrove.monitor.metrics.federation_metrics import FederationMetrics
from mangrove.monitor.metrics.routes import add_metrics
from mangrove.simulation.statuses import invented_federation, invented_status

TOPICS = 4


async def test_the_exposition_is_what_the_snapshot_says(tmp_path: Path) -> None:
    async with (
        simulated_sites(tmp_path, sites=4, links=5, topics=100) as world,
        LiveFeed(Given(world.runtime)) as feed,
    ):
        metrics = FederationMetrics(feed, max_topics=TOPICS)
        assert not metrics.readiness().ready

        async def heard() -> bool:
            return metrics.readiness().ready and len(feed.snapshot.topics) == 4

        await eventually(heard, "all sites should be heard")
        snapshot = feed.snapshot
        page = metrics.page()
        assert page.kind.startswith("text/plain; version=0.0.4")
        found = {each.name: each for each in text_string_to_metric_families(page.body.decode())}
        for name, family in found.items():
            known = CATALOGUE[name if family.type != "counter" else f"{name}_total"]
            assert (family.type, family.documentation) == (known.kind.value, known.meaning)
            assert all({*sample.labels} == {*known.labels} for sample in family.samples)
        status = snapshot.status
        assert status is not None
        rtt = {
            (sample.labels["domain"], sample.labels["peer"]): sample.value
            for sample in found["mangrove_link_rtt_seconds"].samples
        }
        assert rtt == {
            (domain.domain, link.peer): (link.rtt_ms or 0.0) / 1000
            for domain in status.domains
            if domain.gateway is not None
            for link in domain.gateway.links
        }
        topics = found["mangrove_topic_sent"].samples
        assert len(topics) == 4 * (TOPICS + 1), "the rest is summed up"


def test_series_are_bounded_however_many_topics_there_are() -> None:
    federation = invented_federation(50, 200, 2_000)
    sent = TopicTally(topics={f"topic.{number}": number for number in range(2_000)})
    totals = {name: TopicTotals(domain=name, epoch=1, uptime_s=1.0, sent=sent) for name in federation.domains}

    class Large:
        snapshot = Snapshot(
            status=invented_status(federation, tick=3),
            presence={name: Presence(connected=True) for name in federation.domains},
            topics=totals,
        )

    families = {metric.name: samples for metric, samples in FederationMetrics(Large()).families()}
    assert len(families["mangrove_topic_sent_total"]) == 50 * (MAX_TOPICS + 1)
    assert sum(map(len, families.values())) < 40_000


async def test_a_domain_that_is_away_has_no_figures(tmp_path: Path) -> None:
    async with simulated_sites(tmp_path, sites=3, links=3, topics=1) as world:
        feed = LiveFeed(Given(world.runtime))
        lines = FederationMetrics(feed).page().body.decode()
        assert "mangrove_federation_healthy 0.0" in lines
        assert "mangrove_link_up" not in lines


async def test_the_live_view_serves_the_same_pages() -> None:
    class Nothing:
        snapshot = Snapshot(problem="no federation runs")

    app = FastAPI()
    add_metrics(app, Nothing())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        found = await client.get("/metrics")
        assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
        (family,) = text_string_to_metric_families(found.text)
        assert (family.name, family.samples[0].value) == ("mangrove_federation_healthy", 0.0)
        assert (await client.get("/healthz")).status_code == 200
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]) == (503, {"a federation runs": False})
        assert (await client.post("/metrics")).status_code == 405
