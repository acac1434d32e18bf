"""What pages show of a federation: true, bounded, and text whatever a name holds."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.control.events.happenings import NeighbourOffline
from mangrove.model.agents.status import PauseStatus
from mangrove.model.events.happening import Happening
from mangrove.model.federation import Federation
from mangrove.model.plans.account import ItemTold, PlansTold, ProposedPlan
from mangrove.model.plans.plan import Placing
from mangrove.model.site_pair import link_name
from mangrove.model.status import Drop, FederationStatus, GatewayStatus
from mangrove.model.topic_counts import TopicTally, TopicTotals
from mangrove.monitor.told_event import ToldEvent
from mangrove.monitor.view.brokers import brokers
from mangrove.monitor.view.danger import danger
from mangrove.monitor.view.delays import KEPT, SAMPLE_S, DelayHistory
from mangrove.monitor.view.load import LoadMeter
from mangrove.monitor.view.network import NetworkView, network
from mangrove.monitor.view.past import network_at, routes_at
from mangrove.monitor.view.plans import plans
from mangrove.monitor.view.sight import Sight
from mangrove.monitor.view.story import explaining, marks, story, subjects_of
from mangrove.monitor.view.topics import MAX_ROWS, TopicTable, percent
from mangrove.monitor.view.wording import Grade
from mangrove.overlay.events.happenings import (
    ColourChanged,
    LinkFailed,
    LinkRecovered,
    RouteEstablished,
    RouteRetired,
)
from mangrove.simulation.statuses import invented_federation, invented_status

FEDERATION = invented_federation(6, 9, 12)
FIRST = FEDERATION.links[0].pair


def sight(
    status: FederationStatus | None = None, federation: Federation = FEDERATION, at: float = 100.0
) -> Sight:
    return Sight(federation, status or invented_status(federation, tick=5), at=at)


def changed(status: FederationStatus, domain: str, **changes: object) -> FederationStatus:
    """The same, but for what one gateway says."""
    domains = []
    for each in status.domains:
        if each.domain == domain:
            assert each.gateway is not None
            gateway: GatewayStatus = msgspec.structs.replace(each.gateway, **changes)
            each = msgspec.structs.replace(each, gateway=gateway)
        domains.append(each)
    return msgspec.structs.replace(status, domains=tuple(domains))


def event(name: str, at: float, happening: Happening, cause: str | None = None) -> ToldEvent:
    process = name.rpartition("-")[0]
    return ToldEvent(
        id=name,
        at=at,
        cause=cause,
        happening=happening,
        domain=process.removesuffix("-agent"),
        by_agent=process.endswith("-agent"),
    )


# -- map ---------------------------------------------------------------------------------------------------


def test_all_sites_and_links_of_the_file_are_on_the_map_with_their_states() -> None:
    found = network(sight(invented_status(FEDERATION, tick=5, failed=frozenset({FIRST}))))
    assert [each.name for each in found.sites] == list(FEDERATION.domains)
    assert {each.ends: each.grade for each in found.links} == {
        link.pair: Grade.BAD if link.pair == FIRST else Grade.GOOD for link in FEDERATION.links
    }
    assert found.grade is Grade.BAD


def test_a_link_whose_ends_do_not_answer_is_unknown_unless_others_know_that_it_failed() -> None:
    status = invented_status(FEDERATION, tick=5)
    silent = msgspec.structs.replace(
        status,
        domains=tuple(
            msgspec.structs.replace(each, gateway=None) if each.domain in FIRST else each
            for each in status.domains
        ),
    )
    link = {each.ends: each for each in network(sight(silent)).links}[FIRST]
    assert link.grade is Grade.UNKNOWN
    other = next(name for name in FEDERATION.domains if name not in FIRST)
    told = network(sight(changed(silent, other, failed_links=(FIRST,))))
    assert {each.ends: each.grade for each in told.links}[FIRST] is Grade.BAD
    assert {each.name: each.grade for each in told.sites}[FIRST[0]] is Grade.BAD


def test_a_site_that_was_never_heard_of_is_unknown_and_says_why() -> None:
    empty = FederationStatus(federation="invented", domains=())
    found = network(Sight(FEDERATION, empty, at=1.0, silent={"site00": "its broker is away"}))
    assert found.sites[0].grade is Grade.UNKNOWN
    assert found.sites[0].troubles == ("its broker is away",)


def test_pauses_are_seen_at_the_site() -> None:
    status = invented_status(FEDERATION, tick=5)
    first = status.domains[0]
    assert first.agent is not None
    agent = msgspec.structs.replace(first.agent, paused=PauseStatus(by="<b>eve</b>", since=1.0))
    paused = msgspec.structs.replace(
        status, domains=(msgspec.structs.replace(first, agent=agent), *status.domains[1:])
    )
    site = network(sight(paused)).sites[0]
    assert (site.grade, site.troubles) == (Grade.DOUBT, ("decisions are paused by <b>eve</b>",))


def test_loads_are_what_was_counted_between_two_looks() -> None:
    meter = LoadMeter()
    meter.look(changed_bytes(1_000), 10.0)
    assert not meter.links, "one look says nothing of rates"
    meter.look(changed_bytes(126_000), 12.0)
    load = meter.links[FIRST]
    assert load.first_bps == pytest.approx(8 * 125_000 / 2)
    meter.look(changed_bytes(126_500), 12.1)
    assert meter.links[FIRST] is load, "looks that follow at once are not counted"
    meter.look(changed_bytes(5), 14.0)
    assert meter.links.get(FIRST, load).first_bps != load.first_bps, "a gateway that restarted counts anew"


def test_a_clock_that_is_set_back_costs_one_look() -> None:
    """A machine that learns the time after its start must not show the loads of then for hours."""
    meter, history = LoadMeter(), DelayHistory()
    for at, count in ((9_000.0, 1_000), (9_002.0, 2_000), (500.0, 3_000), (501.0, 4_000)):
        meter.look(changed_bytes(count), at)
        history.look(sight(changed_bytes(count), at=at))
    assert meter.links[FIRST].first_bps == pytest.approx(8 * 1_000 / 1)
    topic = FEDERATION.topics.contracts[0].match
    assert [each.at for each in history.of(topic)] == [500.0, 501.0]


def test_a_topic_that_is_gone_is_forgotten_with_its_last_sample() -> None:
    history, topic = DelayHistory(), FEDERATION.topics.contracts[0].match
    for turn in range(3):
        history.look(sight(invented_status(FEDERATION, tick=turn), at=100.0 + turn))
    assert len(history.of(topic)) == 3
    quiet = msgspec.structs.replace(invented_status(FEDERATION, tick=5), domains=())
    history.look(sight(quiet, at=102.0 + KEPT * SAMPLE_S))
    assert len(history.of(topic)) == 3
    history.look(sight(quiet, at=104.0 + KEPT * SAMPLE_S))
    assert history.of(topic) == ()
    assert history.in_time(topic) is None


def changed_bytes(count: int) -> FederationStatus:
    status = invented_status(FEDERATION, tick=1)
    gateway = next(each.gateway for each in status.domains if each.domain == FIRST[0])
    assert gateway is not None
    links = tuple(
        msgspec.structs.replace(link, bytes_out=count) if link.peer == FIRST[1] else link
        for link in gateway.links
    )
    return changed(status, FIRST[0], links=links)


# -- topics ------------------------------------------------------------------------------------------------


def test_topics_are_sorted_by_trouble_with_contract_against_reality() -> None:
    status = invented_status(FEDERATION, tick=5)
    receiving = next(each.gateway for each in status.domains if each.gateway and each.gateway.arrivals)
    assert receiving is not None
    slow = msgspec.structs.replace(receiving.arrivals[0], observed_ms=250.0, late=7, copies=3)
    status = changed(status, receiving.domain, arrivals=(slow, *receiving.arrivals[1:]))
    lost = FEDERATION.topics.contracts[3].match
    status = changed(status, "site00", drops=(Drop(topic=lost, reason="queue full", count=4),))
    rows = TopicTable(sight(status), DelayHistory()).view().rows
    assert rows[0].topic == slow.topic
    first = rows[0]
    assert (first.grade, first.observed_ms, first.deadline_ms) == (Grade.BAD, 250.0, 200.0)
    assert (first.late, first.copies) == (7, 3)
    assert next(row for row in rows if row.topic == lost).lost == 4
    assert len(rows) == len(FEDERATION.topics.contracts)


def test_messages_are_counted_by_contract_over_all_gateways() -> None:
    topic = FEDERATION.topics.contracts[0].match
    one, other, *_ = FEDERATION.domains
    totals = {
        one: TopicTotals(
            domain=one,
            epoch=1,
            uptime_s=9.0,
            sent=TopicTally(topics={topic: 7, "of.no.contract": 5}),
            dropped=TopicTally(topics={topic: 2}),
        ),
        other: TopicTotals(domain=other, epoch=1, uptime_s=9.0, delivered=TopicTally(topics={topic: 4})),
    }
    quiet = msgspec.structs.replace(invented_status(FEDERATION, tick=5), domains=())
    table = TopicTable(Sight(FEDERATION, quiet, at=100.0, totals=totals), DelayHistory())
    row = next(row for row in table.view().rows if row.topic == topic)
    assert (row.sent, row.delivered, row.lost) == (7, 4, 2)


def test_a_topic_without_a_path_is_the_gravest() -> None:
    status = invented_status(FEDERATION, tick=5)
    gateway = status.domains[2].gateway
    assert gateway is not None
    cut = tuple(msgspec.structs.replace(way, paths=()) for way in gateway.ways[:1])
    table = TopicTable(sight(changed(status, gateway.domain, ways=(*cut, *gateway.ways[1:]))), DelayHistory())
    row = table.view().rows[0]
    assert (row.topic, row.grade) == (cut[0].topic, Grade.BAD)
    page = table.topic(row.topic)
    assert page is not None
    assert page.ways[0].grade is Grade.BAD


def test_a_topics_page_has_its_routes_and_its_history() -> None:
    history = DelayHistory()
    for tick in range(1, KEPT + 50):
        history.look(sight(invented_status(FEDERATION, tick=1), at=float(tick)))
    table = TopicTable(sight(), history)
    page = table.topic(FEDERATION.topics.contracts[0].match)
    assert page is not None
    assert len(page.history) == KEPT
    assert page.ways[0].paths == invented_way_paths(page.row.topic)
    assert page.contract["deadline"] == "200 ms"
    assert table.topic("no such topic") is None


def arriving(status: FederationStatus, **figures: object) -> FederationStatus:
    """The same, but all that arrives of the first contract does so as told."""
    first = FEDERATION.topics.contracts[0].match
    for domain in status.domains:
        assert domain.gateway is not None
        told = tuple(
            msgspec.structs.replace(each, **figures) if each.topic == first else each
            for each in domain.gateway.arrivals
        )
        status = changed(status, domain.domain, arrivals=told)
    return status


def test_the_share_in_time_is_of_the_last_minutes_and_percentiles_are_the_gateways() -> None:
    base, first = invented_status(FEDERATION, tick=5), FEDERATION.topics.contracts[0].match
    history = DelayHistory()
    for at, frames, late in ((1.0, 1_000, 900), (3.0, 1_100, 902)):
        now = arriving(base, frames=frames, late=late, p50_ms=12.5, p99_ms=80.0)
        history.look(sight(now, at=at))
    row = next(row for row in TopicTable(sight(now), history).view().rows if row.topic == first)
    assert (row.in_time, row.p50_ms, row.p99_ms) == (0.98, 12.5, 80.0)
    assert (row.grade, row.word) == (Grade.DOUBT, "98% in time")
    page = TopicTable(sight(now), history).topic(first)
    assert page is not None
    way = next(way for way in page.ways if way.observed_ms is not None)
    assert way.in_time == pytest.approx(1 - 902 / 1_100, abs=1e-5)
    history.look(sight(arriving(base, frames=10, late=10), at=5.0))
    assert history.in_time(first) == 0.0, "gateways began anew: what they count is of the time since"


@pytest.mark.parametrize(("share", "text"), [(1.0, "100%"), (0.99999, "99.9%"), (0.98, "98%"), (0.0, "0%")])
def test_a_share_is_never_rounded_up_to_all(share: float, text: str) -> None:
    assert percent(share) == text


def invented_way_paths(topic: str) -> tuple[tuple[str, ...], ...]:
    status = invented_status(FEDERATION, tick=5)
    return next(
        way.paths
        for each in status.domains
        if each.gateway
        for way in each.gateway.ways
        if way.topic == topic
    )


def test_thousands_of_topics_are_searched_and_shown_in_part() -> None:
    large = invented_federation(50, 200, 2_000)
    table = TopicTable(sight(invented_status(large, tick=2), large), DelayHistory())
    assert (len(table.view().rows), table.view().total) == (MAX_ROWS, 2_000)
    found = table.view("SENSOR1999")
    assert ([row.topic for row in found.rows], found.matching) == (["plant49.sensor1999"], 1)
    assert len(network(sight(invented_status(large, tick=2), large)).links) == 200


# -- brokers and plans -------------------------------------------------------------------------------------


def test_brokers_have_their_utilisations_and_the_worst_come_first() -> None:
    status = invented_status(FEDERATION, tick=5)
    away = msgspec.structs.replace(status.domains[1].brokers[0], reachable=False)
    domain = msgspec.structs.replace(status.domains[1], brokers=(away, *status.domains[1].brokers[1:]))
    view = brokers(sight(msgspec.structs.replace(status, domains=(domain, *status.domains[2:]))))
    assert (view.rows[0].broker, view.rows[0].state) == (away.name, "away")
    assert domain.agent is not None
    load = domain.agent.brokers[1]
    row = next(row for row in view.rows if row.broker == load.broker)
    assert (row.input, row.output, row.matching) == tuple(load.utilisation.values())
    assert row.headroom == load.headroom


def test_plans_tell_risk_by_broker_and_what_is_proposed() -> None:
    told = PlansTold(
        domain="a",
        policy="propose",
        risk={"a-edge1": 0.2, "a-edge2": 0.001},
        items=(ItemTold(item="x", topics=3, placing=Placing(primary="a-edge1", mirror="a-edge2")),),
        proposed=(ProposedPlan(name="new.json", found_at=1.0, joint_before=0.8, joint_after=0.99, moves=2),),
    )
    view = plans({"a": told, "b": None})
    assert [(row.broker, row.topics, row.grade) for row in view.domains[0].risks] == [
        ("a-edge1", 3, Grade.BAD),
        ("a-edge2", 0, Grade.GOOD),
    ]
    assert view.domains[0].proposed[0].risk_after == pytest.approx(0.01)
    assert view.domains[1].problem


# -- story and past ----------------------------------------------------------------------------------------

A, B = FIRST
EVENTS = [
    event(f"{A}-1", 10.0, LinkRecovered(peer=B)),
    event(f"{B}-1", 10.0, LinkRecovered(peer=A)),
    event(f"{A}-2", 12.0, RouteEstablished(topic="t", destination=B, path=(A, B))),
    event(f"{A}-3", 20.0, LinkFailed(peer=B, reason="silence")),
    event(f"{A}-4", 20.1, ColourChanged(colour=2, prepared=True, failed=(FIRST,), recovered=()), f"{A}-3"),
    event(f"{A}-5", 20.2, RouteRetired(topic="t", destination=B, path=(A, B), reason="broken"), f"{A}-4"),
    event(f"{A}-6", 30.0, LinkRecovered(peer=B)),
]


def grade_at(at: float) -> Grade:
    now = network(sight())
    return {each.ends: each.grade for each in network_at(now, EVENTS, at).links}[FIRST]


def test_the_past_is_told_by_what_happened_last() -> None:
    assert grade_at(15.0) is Grade.GOOD
    assert grade_at(25.0) is Grade.BAD
    assert grade_at(35.0) is Grade.GOOD


def test_before_the_first_event_a_link_was_the_other_way() -> None:
    assert grade_at(5.0) is Grade.BAD, "it came up at 10"
    now = network(sight())
    only = [EVENTS[3]]
    assert {e.ends: e.grade for e in network_at(now, only, 5.0).links}[FIRST] is Grade.GOOD


def test_a_link_without_events_was_as_it_is() -> None:
    down = network(sight(invented_status(FEDERATION, tick=5, failed=frozenset({FIRST}))))
    past: NetworkView = network_at(down, [], 5.0)
    assert past.past
    assert {each.ends: each.grade for each in past.links}[FIRST] is Grade.BAD


def test_routes_of_the_past_are_those_established_and_not_retired() -> None:
    assert [route.path for route in routes_at(EVENTS, 15.0)] == [(A, B)]
    assert routes_at(EVENTS, 25.0) == ()


def test_a_story_stands_under_its_cause() -> None:
    view = story(EVENTS, chosen=[f"{A}-3"])
    depths = {line.id: line.depth for line in view.lines}
    assert (depths[f"{A}-3"], depths[f"{A}-4"], depths[f"{A}-5"]) == (0, 1, 2)
    assert [line.id for line in view.lines if line.chosen] == [f"{A}-3"]


def test_things_lead_to_the_event_that_explains_them() -> None:
    about = f"link:{link_name(A, B)}"
    assert about in subjects_of(EVENTS[4]), "also what happened because of it"
    other = event(f"{B}-2", 20.3, LinkFailed(peer=A, reason="silence"))
    found = explaining([*EVENTS[:6], other], about)
    assert [each.id for each in found] == [f"{A}-3", f"{B}-2"], "both ends, and no neutral consequence"
    assert explaining(EVENTS, "link:x--y") == ()
    assert explaining(EVENTS, "topic:t")


def test_an_agent_that_misses_another_does_not_explain_a_link() -> None:
    missed = event(f"{A}-agent-1", 21.0, NeighbourOffline(peer=B))
    assert subjects_of(missed) == {f"site:{A}", f"site:{B}"}


def test_marks_of_the_slider_are_good_and_bad_moments() -> None:
    assert [mark[2] for mark in marks(EVENTS, 2)] == [f"{A}-3", f"{A}-6"]
    doubts = [event(f"{A}-{number}", 40.0, NeighbourOffline(peer=B)) for number in range(10, 30)]
    assert f"{A}-3" in [mark[2] for mark in marks([*EVENTS, *doubts], 4)], "doubts do not hide what is bad"


# -- disaster ----------------------------------------------------------------------------------------------


def test_a_circle_around_a_site_strikes_it() -> None:
    place = FEDERATION.domains["site00"].location
    assert place is not None
    found = danger(sight(), *place, 5.0)
    assert "site00" in found.sites
    assert found.outcomes["struck"] > 0


@pytest.mark.parametrize("circle", [(91, 0, 1), (0, 181, 1), (0, 0, 0), (float("nan"), 0, 1), (0, 0, 1e9)])
def test_what_is_no_circle_is_said_so(circle: tuple[float, float, float]) -> None:
    assert danger(sight(), *circle).problem
