"""Brokers are switched off only when they are not needed and empty, and on again before load asks for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.mortal_domain import MortalDomain, domain

from mangrove.control.elastic.department import ELASTIC_KEY, QUIET_S, REST_S
from mangrove.control.elastic.rules import OFF_BELOW, ON_ABOVE, shortage, spare, use
from mangrove.control.elastic.states import TRANSITIONS, Power
from mangrove.control.instructions import SwitchBroker
from mangrove.control.site import Site
from mangrove.control.stimuli import LeadershipLost
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.agents.plain_clients import PlainClient
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Edge, Elastic, Federation, Host
from mangrove.model.topics import Contract, Mirror

ON = Elastic(enabled=True)
EDGES = ("oslo-edge1", "oslo-edge2", "oslo-edge3")
LONG_S = QUIET_S + REST_S + 20.0


def quiet(elastic: Elastic = ON, **more: object) -> MortalDomain:
    made = domain(elastic=elastic, **more)  # type: ignore[arg-type]
    made.rates = dict.fromkeys(made.answers, 10.0)
    return made


def switched(made: MortalDomain) -> list[SwitchBroker]:
    return [each for each in made.told if isinstance(each, SwitchBroker)]


def test_a_broker_that_is_not_needed_is_emptied_without_loss_and_switched_off() -> None:
    made = quiet()
    for number in range(6):
        made.subscribe(f"t{number}", EDGES[number % 3])
    made.run(LONG_S)
    (first, *_) = switched(made)
    assert first == SwitchBroker("oslo-edge3", on=False)
    kinds = made.kinds()
    order = [kinds.index(kind) for kind in ("BrokerLeaves", "MoveDecided", "TopicMoved", "BrokerSwitchedOff")]
    assert order == sorted(order)
    assert all("oslo-edge3" not in made.edges(f"t{number}") for number in range(6))
    assert all(made.edges(f"t{number}") for number in range(6))
    assert "BrokerFailed" not in kinds
    assert ELASTIC_KEY in made.store["sessions"]


def test_one_stays_and_two_where_topics_are_mirrored() -> None:
    made = quiet()
    made.run(3 * LONG_S)
    assert made.agent.status(made.now).failures.power == {"oslo-edge2": "off", "oslo-edge3": "off"}
    mirrored = quiet(contracts=(Contract(match="m.>", mirror=Mirror.BOTH),))
    mirrored.run(3 * LONG_S)
    assert mirrored.agent.status(mirrored.now).failures.power == {"oslo-edge3": "off"}


def test_load_has_it_started_again_before_others_are_highly_loaded() -> None:
    made = quiet()
    made.run(LONG_S)
    assert switched(made) == [SwitchBroker("oslo-edge3", on=False)]
    made.rates |= {"oslo-edge1": 700.0, "oslo-edge2": 700.0}
    made.run(8.0)
    assert switched(made)[-1] == SwitchBroker("oslo-edge3", on=True)
    assert made.agent.status(made.now).failures.power == {}
    assert made.kinds()[-1] == "BrokerJoined"
    assert "BrokerHigh" not in made.kinds()


def test_between_the_two_shares_nothing_is_switched() -> None:
    made = quiet()
    made.rates = dict.fromkeys(made.answers, 450.0)
    made.run(LONG_S)
    assert switched(made) == []


def test_a_dead_broker_has_another_started() -> None:
    made = quiet()
    made.run(LONG_S)
    made.answers["oslo-edge1"] = "x"
    made.run(4.0)
    assert switched(made)[-1] == SwitchBroker("oslo-edge3", on=True)
    assert "oslo-edge1 is dead" in next(
        event.happening.sentence() for event in made.events if event.kind == "BrokerSwitchedOn"
    )


def test_who_cannot_be_told_to_move_keeps_a_broker_on() -> None:
    made = quiet()
    client = PlainClient(cid=1, name="plc", patterns=(), bytes_out=0, pending_bytes=0)
    made.plain = {"oslo-edge3": (client,)}
    made.run(LONG_S)
    assert switched(made) == []
    assert "BrokerStays" in made.kinds()


def test_edges_are_added_on_demand_and_removed_when_they_are_not_needed_any_more() -> None:
    made = quiet(Elastic(enabled=True, max_edges=4), edges=2)
    assert made.agent.status(made.now).failures.power == {"oslo-edge3": "off", "oslo-edge4": "off"}
    assert "BrokerFailed" not in made.kinds()
    made.rates |= {"oslo-edge1": 700.0, "oslo-edge2": 700.0}
    made.run(10.0)
    assert switched(made)[0] == SwitchBroker("oslo-edge3", on=True)
    made.run(30.0)
    assert len(switched(made)) == 1
    placed = {made.subscribe(f"n{n}").assignments[f"subscriber-n{n}"].broker for n in range(4)}
    assert "oslo-edge3" in placed
    made.rates = dict.fromkeys(made.answers, 10.0)
    made.run(3 * LONG_S)
    assert SwitchBroker("oslo-edge3", on=False) in switched(made)


def test_a_successor_knows_what_is_off_and_takes_nobody_for_dead() -> None:
    made = quiet()
    made.run(LONG_S)
    page = made.agent.directory_page(DirectoryQuestion(), made.now)
    made.take(made.agent.handle(LeadershipLost(), made.now))
    made.lead(4, tuple(each.record for each in page.topics if each.record))
    made.run(5.0)
    assert made.agent.status(made.now).failures.power == {"oslo-edge3": "off"}
    assert "BrokerFailed" not in made.kinds()


def test_a_broker_that_somebody_starts_is_used() -> None:
    made = quiet()
    made.run(LONG_S)
    made.answers["oslo-edge3"] = "+"
    made.run(15.0)
    assert made.agent.status(made.now).failures.power == {}


def test_a_domain_that_is_not_elastic_switches_nothing() -> None:
    made = quiet(Elastic())
    made.run(LONG_S)
    assert switched(made) == []


# -- rules


def site(hosts: tuple[Host, ...] = ()) -> Site:
    described = Domain(name="oslo", base_port=4000, edges=(Edge(capacity=1000.0),) * 3, hosts=hosts)
    return Site(Federation(name="f", domains={"oslo": described}), fixed_endpoints(described))


def loads(*shares: float) -> list[BrokerLoad]:
    return [
        BrokerLoad(
            broker=edge,
            role="edge",
            state=LoadState.LOW,
            measured=LoadState.LOW,
            utilisation={Metric.MATCHING: share},
            capacity={Metric.MATCHING: 1000.0},
            messages_in_s=1000.0 * share,
        )
        for edge, share in zip(EDGES, shares, strict=True)
    ]


def test_two_hosts_stay_in_use_where_there_are_two() -> None:
    hosts = (
        Host(name="h1", address="127.0.0.1", brokers=("head", "edge1", "edge2")),
        Host(name="h2", address="127.0.0.1", brokers=("edge3",)),
    )
    assert spare(loads(0.05, 0.05, 0.01), site(hosts), False) == "oslo-edge2"


def test_what_the_plan_has_off_goes_first() -> None:
    assert spare(loads(0.05, 0.05, 0.01), site(), False, ("oslo-edge1",)) == "oslo-edge1"


@settings(max_examples=100)
@given(st.lists(st.floats(0.0, 1.5), min_size=3, max_size=3), st.booleans())
def test_what_is_spare_leaves_no_shortage(shares: list[float], mirrors: bool) -> None:
    found = loads(*shares)
    name = spare(found, site(), mirrors)
    left = use(found, without=name)
    if name:
        assert left is not None
        assert left <= OFF_BELOW < ON_ABOVE
        assert not shortage(found)


def test_nothing_is_known_of_brokers_without_capacity() -> None:
    unknown = [
        BrokerLoad(broker=edge, role="edge", state=LoadState.LOW, measured=LoadState.LOW) for edge in EDGES
    ]
    assert use(unknown) is None
    assert spare(unknown, site(), False) == ""


@pytest.mark.parametrize("power", list(Power))
def test_off_is_reached_through_emptiness_alone(power: Power) -> None:
    ways = {before for (before, _), after in TRANSITIONS.items() if after is Power.OFF}
    assert ways == {Power.CHECKING, Power.STARTING}
    assert any(before is power for before, _ in TRANSITIONS)
