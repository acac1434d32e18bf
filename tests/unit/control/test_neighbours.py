"""Neighbours' agents: registration, on- and offline, their load, and what is not believed."""

from __future__ import annotations

import math

import msgspec
import pytest
from tests.kit.engines import federation
from tests.kit.peers import SimulatedPeers

from mangrove.control import neighbours as module
from mangrove.control.instructions import TellPeer
from mangrove.control.neighbours import CONFIRM_S, SILENT_S, NeighbourCame, Neighbours, NeighbourWent
from mangrove.model.agents.load import ClusterLoad, LoadState, Metric
from mangrove.model.agents.peers import LoadTold, PeerRegister, PeerRegistered
from mangrove.model.federation import Federation

LOW = ClusterLoad(head=LoadState.LOW, edges=LoadState.LOW, headroom=0.5)


def shape() -> Federation:
    """b takes load from a."""
    plain = federation(("a", "b"), ("b", "c"))
    accepting = msgspec.structs.replace(plain.domains["b"], accept_load_from=("a",))
    return msgspec.structs.replace(plain, domains={**plain.domains, "b": accepting})


def registered() -> Neighbours:
    """b, with a online."""
    made = Neighbours(shape(), "b", epoch=10)
    made.start(0.0)
    made.handle("a", PeerRegistered(epoch=5, accepts=False), 0.1)
    assert made.take_changes() == [NeighbourCame("a", restarted=True)]
    return made


def test_registers_with_every_neighbour_and_says_whether_it_takes_load() -> None:
    made = Neighbours(shape(), "b", epoch=10)
    assert made.start(0.0) == [
        TellPeer("a", PeerRegister(epoch=10, accepts=True)),
        TellPeer("c", PeerRegister(epoch=10, accepts=False)),
    ]
    assert made.online() == ()


def test_a_registration_is_confirmed_and_its_sender_online() -> None:
    made = Neighbours(shape(), "b", epoch=10)
    answer = made.handle("c", PeerRegister(epoch=7, accepts=True), 1.0)
    assert answer == [TellPeer("c", PeerRegistered(epoch=10, accepts=False))]
    assert made.online() == ("c",)
    assert made.accepts("c")
    assert not made.accepts("a")


def test_who_does_not_confirm_in_time_is_offline_and_tried_again() -> None:
    made = Neighbours(shape(), "b", epoch=10)
    made.start(0.0)
    assert made.timer() == CONFIRM_S
    again = made.handle_timer(CONFIRM_S)
    assert {each.peer for each in again if isinstance(each, TellPeer)} == {"a", "c"}
    assert made.online() == ()


def test_who_falls_silent_is_offline_and_back_with_the_next_word() -> None:
    made = registered()
    made.handle_timer(0.1 + SILENT_S)
    assert made.take_changes() == [NeighbourWent("a")]
    assert made.online() == ()
    made.handle("a", PeerRegistered(epoch=5, accepts=False), 20.0)
    assert made.take_changes() == [NeighbourCame("a", restarted=False)]


def test_a_later_epoch_means_a_restart_and_an_earlier_one_is_ignored() -> None:
    made = registered()
    made.handle("a", PeerRegister(epoch=6, accepts=True), 1.0)
    assert made.take_changes() == [NeighbourCame("a", restarted=True)]
    assert made.handle("a", PeerRegister(epoch=5, accepts=False), 2.0) == []
    assert made.accepts("a")
    assert made.refused[module.OLD_AGENT] == 1
    made.handle("a", PeerRegistered(epoch=6, accepts=True), 3.0)
    assert made.take_changes() == []


def test_after_silence_any_epoch_is_taken_so_that_a_clock_set_back_locks_nobody_out() -> None:
    made = registered()
    made.handle_timer(0.1 + SILENT_S)
    made.handle("a", PeerRegister(epoch=1, accepts=False), 20.0)
    assert made.online() == ("a",)
    assert made.take_changes()[-1] == NeighbourCame("a", restarted=True)


def test_load_is_told_when_states_change_and_now_and_then() -> None:
    made = registered()
    assert made.set_load(LOW, 1.0) == [TellPeer("a", LoadTold(load=LOW))]
    nearly = msgspec.structs.replace(LOW, headroom=0.4)
    assert made.set_load(nearly, 2.0) == []
    high = msgspec.structs.replace(LOW, edges=LoadState.HIGH)
    assert made.set_load(high, 2.5) == [TellPeer("a", LoadTold(load=high))]
    assert made.set_load(high, 5.5) == [TellPeer("a", LoadTold(load=high))]
    answer = made.handle("c", PeerRegister(epoch=1, accepts=False), 5.6)
    assert TellPeer("c", LoadTold(load=high)) in answer


def test_a_neighbours_load_is_known_until_it_is_stale() -> None:
    made = registered()
    made.handle("a", LoadTold(load=LOW), 1.0)
    assert made.load_of("a", 2.0) == LOW
    assert made.load_of("a", 1.0 + module.STALE_LOAD_S) is None
    assert made.load_of("c", 2.0) is None
    (first, second) = made.status(3.0)
    assert (first.domain, first.online, first.load, first.load_age_s) == ("a", True, LOW, 2.0)
    assert (second.domain, second.online, second.load) == ("c", False, None)


def test_the_load_of_an_agent_that_was_replaced_is_forgotten() -> None:
    made = registered()
    made.handle("a", LoadTold(load=LOW), 1.0)
    made.handle("a", PeerRegister(epoch=6, accepts=False), 2.0)
    assert made.load_of("a", 2.0) is None


@pytest.mark.parametrize(
    "impossible",
    [
        {"headroom": math.nan},
        {"headroom": 1.5},
        {"head_remaining": {Metric.INPUT: math.nan}},
        {"edges_remaining": {Metric.OUTPUT: math.inf}},
        {"largest_edge": {Metric.MATCHING: -math.inf}},
    ],
)
def test_impossible_loads_are_refused(impossible: dict[str, object]) -> None:
    made = registered()
    made.handle("a", LoadTold(load=msgspec.structs.replace(LOW, **impossible)), 1.0)
    assert made.load_of("a", 1.0) is None
    assert made.refused[module.IMPOSSIBLE_LOAD] == 1


def test_strangers_and_the_unregistered_are_refused() -> None:
    made = registered()
    assert made.handle("x", PeerRegister(epoch=1, accepts=True), 1.0) == []
    made.handle("c", LoadTold(load=LOW), 1.0)
    assert made.refused == {module.NOT_A_NEIGHBOUR: 1, module.NOT_REGISTERED: 1}


def test_both_stay_online_with_a_tenth_of_all_messages_lost() -> None:
    net = SimulatedPeers(federation(("a", "b")), seed=3)
    net.loss = 0.1
    net.run(5.0)
    for _ in range(120):
        net.run(1.0)
        assert net.peers["a"].neighbours.online() == ("b",)
    net.stop("b")
    net.run(SILENT_S + 1.0)
    assert net.peers["a"].neighbours.online() == ()
