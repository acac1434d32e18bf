"""A broker that dies leaves the directory after its grace; one that returns is used again; it is told why."""

from __future__ import annotations

import pytest
from tests.kit.mortal_domain import BROKERS, MortalDomain, domain

from mangrove.control.events.failure_happenings import FailoverDecided
from mangrove.control.failures.credibility import NOT_BELIEVED, OTHER_BROKER, WRONG
from mangrove.control.failures.department import BOUND_S, GRACE_S, MAX_RESTARTS, RESTART_AGAIN_S
from mangrove.control.failures.detector import PROBE_S
from mangrove.control.failures.stored import FAILURES_KEY
from mangrove.control.instructions import (
    ProbeBroker,
    PushDirectory,
    RestartBroker,
)
from mangrove.control.stimuli import (
    LeadershipLost,
)
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.federation import Host

HOSTS = (
    Host(name="h1", address="127.0.0.1", brokers=("head", "edge1")),
    Host(name="h2", address="127.0.0.1", brokers=("edge2", "edge3")),
)


def served(topic: str = "t") -> tuple[MortalDomain, str]:
    made = domain()
    broker = made.subscribe(topic).assignments[f"subscriber-{topic}"].broker
    made.run(1.0)
    assert made.edges(topic) == (broker,)
    return made, broker


@pytest.mark.parametrize("how", ["x", "-"])
def test_no_record_names_a_dead_broker_for_longer_than_the_bound(how: str) -> None:
    made, broker = served()
    made.answers[broker] = how
    made.run(BOUND_S)
    (edge,) = made.edges("t")
    assert edge != broker
    pushed = [
        record for each in made.told if isinstance(each, PushDirectory) for record in each.changes.records
    ]
    decided = next(event for event in made.events if isinstance(event.happening, FailoverDecided))
    assert pushed[-1].edges == (edge,)
    assert pushed[-1].decision == decided.id


def test_what_happened_is_told_from_the_detector_to_the_moves() -> None:
    made, broker = served()
    made.answers[broker] = "x"
    made.run(BOUND_S)
    failed, decided = made.events[-2:]
    assert (failed.kind, decided.kind) == ("BrokerFailed", "FailoverDecided")
    assert decided.cause == failed.id
    assert "1 topics go" in decided.happening.sentence()


def test_a_broker_that_its_supervisor_starts_anew_in_time_keeps_what_it_has() -> None:
    made, broker = served()
    made.answers[broker] = "x"
    made.run(GRACE_S - 2 * PROBE_S)
    made.answers[broker] = "+"
    made.run(3.0)
    assert made.edges("t") == (broker,)
    assert made.kinds()[-2:] == ["BrokerFailed", "BrokerReturned"]
    assert "nothing was moved" in made.events[-1].happening.sentence()


def test_one_that_returns_later_gets_new_topics_and_nothing_back() -> None:
    made, broker = served()
    made.answers[broker] = "x"
    made.run(3.0)
    elsewhere = made.edges("t")
    made.answers[broker] = "+"
    made.run(3.0)
    assert made.edges("t") == elsewhere
    assert made.kinds()[-1] == "BrokerReturned"
    assert "stays where it is" in made.events[-1].happening.sentence()
    placed = {made.subscribe(f"n{n}").assignments[f"subscriber-n{n}"].broker for n in range(6)}
    assert broker in placed
    assert FAILURES_KEY not in made.store["sessions"]


def test_one_that_dies_again_while_it_returns_has_no_second_grace() -> None:
    made, broker = served()
    made.answers[broker] = "x"
    made.run(3.0)
    made.answers[broker] = "+"
    made.run(2 * PROBE_S)
    made.subscribe("t", broker)
    assert broker in made.edges("t")
    made.answers[broker] = "x"
    made.run(PROBE_S)
    assert broker not in made.edges("t")


def test_nothing_new_goes_to_a_broker_from_the_moment_of_its_proof() -> None:
    made = domain()
    made.answers["oslo-edge1"] = "x"
    made.run(PROBE_S)
    placed = {made.subscribe(f"n{n}").assignments[f"subscriber-n{n}"].broker for n in range(8)}
    assert placed <= {"oslo-edge2", "oslo-edge3"}


def test_a_client_that_says_a_dead_broker_serves_it_is_not_believed() -> None:
    made, broker = served()
    made.answers[broker] = "-"
    made.run(BOUND_S)
    made.subscribe("t", broker, client="c2")
    made.subscribe("other", broker, client="c2")
    made.run(1.0)
    assert broker not in (*made.edges("t"), *made.edges("other"))


def test_publishers_are_sent_to_the_first_living_broker_of_the_succession() -> None:
    made = domain()
    assert made.subscribe("t", role="publisher").assignments["publisher-t"].broker == "oslo-head"
    made.answers["oslo-head"] = "x"
    made.run(2.0)
    assert made.subscribe("u", role="publisher").assignments["publisher-u"].broker == "oslo-edge1"
    made.answers["oslo-edge1"] = "-"
    made.run(2.0)
    assert made.subscribe("v", role="publisher").assignments["publisher-v"].broker == "oslo-edge2"


def test_a_frozen_broker_is_started_anew_a_few_times_and_one_that_ended_is_left_to_its_supervisor() -> None:
    made, broker = served()
    other = next(each for each in BROKERS[1:] if each != broker)
    made.answers |= {broker: "-", other: "x"}
    made.run(BOUND_S)
    assert [each for each in made.told if isinstance(each, RestartBroker)] == [RestartBroker(broker)]
    made.run(RESTART_AGAIN_S * (MAX_RESTARTS + 2))
    assert [each for each in made.told if isinstance(each, RestartBroker)] == [
        RestartBroker(broker)
    ] * MAX_RESTARTS


def test_a_host_is_gone_when_all_its_brokers_die_together_and_its_brokers_are_not_started_anew() -> None:
    made = domain(HOSTS)
    made.subscribe("a", "oslo-edge2")
    made.subscribe("b", "oslo-edge3")
    made.answers |= {"oslo-edge2": "-", "oslo-edge3": "-"}
    made.run(BOUND_S)
    assert made.edges("a") == made.edges("b") == ("oslo-edge1",)
    assert made.kinds().count("HostFailed") == 1
    decided = made.events[-1]
    assert decided.cause == next(event.id for event in made.events if event.kind == "HostFailed")
    assert not [each for each in made.told if isinstance(each, RestartBroker)]
    made.answers |= {"oslo-edge2": "+", "oslo-edge3": "+"}
    made.run(2.0)
    assert made.kinds().count("HostReturned") == 1


def test_a_successor_decides_nothing_again() -> None:
    made, broker = served()
    made.answers[broker] = "-"
    made.run(BOUND_S)
    before = made.edges("t")
    page = made.agent.directory_page(DirectoryQuestion(), made.now)
    directory = tuple(each.record for each in page.topics if each.record)
    made.told.clear()
    made.events.clear()
    made.take(made.agent.handle(LeadershipLost(), made.now))
    made.lead(4, directory)
    made.run(2.0)
    assert made.edges("t") == before
    assert not {"BrokerFailed", "FailoverDecided", "RestartOrdered"} & set(made.kinds())
    assert not [each for each in made.told if isinstance(each, RestartBroker)]
    made.answers[broker] = "+"
    made.run(2.0)
    assert made.kinds()[-1] == "BrokerReturned"


def test_a_successor_finishes_what_was_decided_and_not_recorded() -> None:
    made, broker = served()
    page = made.agent.directory_page(DirectoryQuestion(), made.now)
    before = tuple(each.record for each in page.topics if each.record)
    made.answers[broker] = "-"
    made.run(BOUND_S)
    assert FAILURES_KEY in made.store["sessions"]
    made.take(made.agent.handle(LeadershipLost(), made.now))
    made.lead(4, before)
    assert broker not in made.edges("t")


def test_a_successor_decides_what_its_predecessor_did_not_get_to() -> None:
    made, broker = served()
    page = made.agent.directory_page(DirectoryQuestion(), made.now)
    directory = tuple(each.record for each in page.topics if each.record)
    made.take(made.agent.handle(LeadershipLost(), made.now))
    made.answers[broker] = "-"
    made.run(3.0)
    made.lead(4, directory)
    assert broker not in made.edges("t")
    assert made.kinds().count("FailoverDecided") == 1


def test_one_client_has_the_broker_probed_and_two_with_a_missed_probe_prove_it() -> None:
    made, broker = served()
    made.subscribe("u", client="c2")
    assert made.suspect(broker, "c1") == [ProbeBroker(broker)]
    made.suspect(broker, "c2")
    made.answers[broker] = "-"
    made.run(PROBE_S)
    assert made.agent.status(made.now).failures.brokers[0].health == "failed"
    failed = next(event for event in made.events if event.kind == "BrokerFailed")
    assert "c1, c2" in failed.happening.sentence()


def test_a_hostile_client_changes_nothing_but_counts() -> None:
    made, broker = served()
    for _ in range(50):
        made.suspect(broker, "c1")
        made.suspect("bonn-edge1", "c1")
        made.run(2 * PROBE_S)
    status = made.agent.status(made.now)
    assert made.edges("t") == (broker,)
    assert status.failures.brokers == ()
    assert status.failures.refuted_reports == WRONG
    assert status.refused[OTHER_BROKER] == 50
    assert status.refused[NOT_BELIEVED] == 50 - WRONG
    assert made.kinds().count("LinkTroubled") == 1
    assert made.kinds().count("BrokerReported") <= WRONG


def test_an_agent_that_was_stalled_drops_nobody() -> None:
    made, broker = served()
    made.answers = dict.fromkeys(BROKERS, "-")
    for _ in range(10):
        made.now += 1.0
        made.run(PROBE_S)
    made.answers = dict.fromkeys(BROKERS, "+")
    made.run(2.0)
    assert made.edges("t") == (broker,)
    assert "BrokerFailed" not in made.kinds()


def test_when_all_are_dead_the_directory_names_what_would_serve() -> None:
    made, _ = served()
    made.answers = dict.fromkeys(BROKERS, "x")
    made.run(5.0)
    made.answers = dict.fromkeys(BROKERS, "+")
    made.run(3.0)
    assert len(made.edges("t")) == 1
