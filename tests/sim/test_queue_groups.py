"""Queue groups in virtual time: who serves, and that nothing is lost when the one who serves dies."""

from __future__ import annotations

from collections import Counter

import pytest

from mangrove.model.federation import Domain, Federation, Link
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.stimuli.stimulus import Stimulus, SubjectRetargeted
from mangrove.simulation.overlay_jobs import SimulatedJobs


def shape(*links: tuple[str, str, float]) -> Federation:
    names = sorted({name for first, second, _ in links for name in (first, second)})
    return Federation(
        name="jobs",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(Link(between=(first, second), delay_ms=delay) for first, second, delay in links),
    )


TRIANGLE = shape(("hub", "near", 2), ("hub", "far", 20), ("near", "far", 20))
LINE = shape(("a", "b", 5), ("b", "c", 5), ("c", "d", 5), ("b", "e", 30))


def network(federation: Federation, *members: str) -> SimulatedJobs:
    net = SimulatedJobs(federation, seed=3)
    for name in members:
        net.join(name, "job.*", "workers")
    net.run(3.0)
    return net


def by_domain(net: SimulatedJobs) -> dict[str, int]:
    served: Counter[str] = Counter()
    for (name, _, _), count in net.served.items():
        served[name] += count
    return dict(served)


def send(net: SimulatedJobs, name: str, count: int, *, spacing_s: float = 0.001, first: int = 0) -> None:
    for number in range(first, first + count):
        net.send_job(name, "job.1", b"%d" % number)
        net.run(net.now + spacing_s)


def test_the_nearest_domain_serves_and_the_own_one_before_it() -> None:
    net = network(LINE, "c", "d", "e")
    send(net, "a", 100)
    net.run(net.now + 1)
    assert by_domain(net) == {"c": 100}
    send(net, "d", 10)
    assert by_domain(net) == {"c": 100, "d": 10}
    net.join("a", "job.1", "workers")
    send(net, "a", 10)
    net.run(net.now + 1)
    assert by_domain(net) == {"a": 10, "c": 100, "d": 10}
    net.validate()


def test_members_leave_one_after_the_other_and_no_job_is_lost_or_served_twice() -> None:
    net = network(LINE, "c", "d", "e")
    send(net, "a", 100)
    net.leave("c", "job.*", "workers")
    send(net, "a", 100, first=100)
    net.leave("d", "job.*", "workers")
    send(net, "a", 100, first=200)
    net.run(net.now + 1)
    assert len(net.served) == net.served.total() == 300
    served = by_domain(net)
    assert all(served[name] >= 80 for name in ("c", "d", "e"))
    assert net.sent_on > 0, "some were under way to a member that had left"
    net.leave("e", "job.*", "workers")
    send(net, "a", 10, first=300)
    net.run(net.now + 1)
    assert sum(net.lost.values()) > 0, "those under way have nobody left, and that is counted"
    net.validate()


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize(("federation", "chosen"), [(TRIANGLE, "near"), (LINE, "c")])
def test_nothing_is_lost_when_the_domain_that_serves_dies(
    federation: Federation, chosen: str, silent: bool
) -> None:
    others = {"far", "hub"} if federation is TRIANGLE else {"e", "a"}
    source = min(others & {"hub", "a"})
    net = network(federation, chosen, *(others - {source}))
    send(net, source, 500)
    net.crash(chosen, silent=silent)
    send(net, source, 1000, first=500)
    net.run(net.now + 2)
    payloads = {payload for _, _, payload in net.served}
    assert len(payloads) == 1500, "nothing is lost"
    assert (net.dropped, net.lost) == ({}, {})
    assert net.served.total() - 1500 <= net.sent_on, "what was served twice was counted"
    net.validate()


def test_jobs_wait_if_nobody_else_can_serve_them_and_go_to_the_first_who_can() -> None:
    net = network(TRIANGLE, "near")
    net.crash("near", silent=False)
    net.run(net.now + 0.5)
    send(net, "hub", 20)
    net.run(net.now + 1)
    assert not net.served
    net.join("far", "job.1", "workers")
    net.run(net.now + 1)
    assert by_domain(net) == {"far": 20}
    assert not net.dropped


def test_jobs_that_nobody_can_serve_are_dropped_in_the_end_and_counted() -> None:
    net = network(TRIANGLE, "near")
    net.crash("near", silent=False)
    net.run(net.now + 0.5)
    send(net, "hub", 5)
    net.run(net.now + 12)
    assert net.dropped == {"expired while no way led to the destination": 5}


def test_a_small_change_of_delay_does_not_move_a_group() -> None:
    net = network(shape(("hub", "x", 10), ("hub", "y", 11)), "x", "y")
    send(net, "hub", 5)
    net.links["hub", "x"].delay_s = 0.013
    net.run(net.now + 5)
    send(net, "hub", 5, first=5)
    net.run(net.now + 1)
    assert by_domain(net) == {"x": 10}
    net.links["hub", "x"].delay_s = 0.080
    net.run(net.now + 10)
    send(net, "hub", 10, first=10)
    net.run(net.now + 1)
    assert by_domain(net) == {"x": 10, "y": 10}


def test_a_recording_of_a_gateway_that_sends_jobs_on_replays_the_same() -> None:
    recorded: list[tuple[Stimulus, int]] = []
    star = shape(("hub", "near", 2), ("hub", "far", 20))
    net = SimulatedJobs(star, 3, record={"hub": lambda *told: recorded.append(told)})
    for name in ("near", "far"):
        net.join(name, "job.*", "workers")
    net.run(3.0)
    engine = net.engines["hub"]
    send(net, "hub", 50)
    net.crash("near", silent=True)
    net.reset("hub", "near")
    send(net, "hub", 50, first=50)
    net.run(net.now + 1)
    assert any(isinstance(stimulus, SubjectRetargeted) for stimulus, _ in recorded)
    assert replay(OverlayEngine(star, "hub", engine.epoch), recorded).identical


def test_a_gateway_that_comes_back_serves_what_waited_for_it_once() -> None:
    """The only domain with members: frames keep their names, so what it delivered before is recognised."""
    net = network(TRIANGLE, "near")
    send(net, "hub", 100)
    net.crash("near", silent=False)
    send(net, "hub", 100, first=100)
    net.start("near")
    net.join("near", "job.*", "workers")
    net.run(net.now + 5)
    assert (len(net.served), net.served.total(), net.sent_on) == (200, 200, 0)
    net.validate()
