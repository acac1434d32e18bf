"""One agent leads at a time, the strongest first, whatever the store and the clocks do."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.election.election import HEAD_START_S, RANK_S, TTL_S, Election, PutLease
from mangrove.control.election.standing import Standing
from mangrove.model.agents.lease import LeaseRecord


class Box:
    """A store with one record."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.revision = 0

    def ask(self, election: Election, now: float, after: float = 0.0) -> None:
        """Carry out all that an agent wants at this time; answers come `after` seconds."""
        while (wish := election.turn(now)) is not None:
            if not isinstance(wish, PutLease):
                election.found(self.record, self.revision, now + after)
            elif wish.last == self.revision:
                self.record, self.revision = wish.record, self.revision + 1
                election.written(self.revision, now + after)
            else:
                election.refused(now + after)


def candidates(count: int) -> list[Election]:
    """Candidate 0 is the strongest; the last leader does not count."""

    def rank(own: int, last: str) -> int:
        return sum(f"a{other}" != last for other in range(own))

    return [
        Election(f"a{each}", f"h{each}", first_term=100, rank=lambda last, own=each: rank(own, last))  # type: ignore[misc]
        for each in range(count)
    ]


def first_to_lead(box: Box, agents: list[Election], now: float, until: float) -> tuple[int, float]:
    while now < until:
        for number, agent in enumerate(agents):
            box.ask(agent, now)
            if agent.held(now):
                return number, now
        now += 0.01
    raise AssertionError("nobody leads")


def test_an_agent_alone_leads_at_once_and_goes_on() -> None:
    box, agent = Box(), Election("a", "h", first_term=100)
    box.ask(agent, 0.0)
    assert agent.held(0.0)
    assert agent.term == 100
    for tenth in range(100):
        box.ask(agent, tenth / 10)
        assert agent.held(tenth / 10)
    assert not agent.held(9.9 + TTL_S)


def test_the_strongest_takes_over_after_a_death_and_one_round_suffices() -> None:
    box, (dead, *others) = Box(), candidates(4)
    box.ask(dead, 0.0)
    for agent in others:
        box.ask(agent, 0.05)
    puts = box.revision
    leader, at = first_to_lead(box, list(reversed(others)), 0.1, 10.0)
    assert others[::-1][leader] is others[0], "the strongest of those that live"
    assert TTL_S <= at <= TTL_S + 0.1
    for tenth in range(5):
        for agent in others:
            box.ask(agent, at + tenth * RANK_S)
    assert others[0].term == dead.term + 1
    assert box.revision == puts + 1, "nobody else asked for it"


def test_a_leader_that_is_well_is_not_replaced_by_a_stronger_one() -> None:
    box, (strong, weak) = Box(), candidates(2)
    box.ask(weak, 0.0)
    box.ask(weak, RANK_S)
    assert weak.held(RANK_S)
    for tenth in range(2, 100):
        box.ask(weak, tenth / 10)
        box.ask(strong, tenth / 10)
        assert weak.held(tenth / 10)
        assert not strong.held(tenth / 10)


def test_a_hand_over_goes_to_the_one_that_was_named() -> None:
    box, (first, second, third) = Box(), candidates(3)
    box.ask(first, 0.0)
    first.step_down("a2", 1.5)
    assert not first.held(1.5), "from this moment on"
    box.ask(first, 1.5)
    for agent in (first, second, third):
        agent.look(1.5)
        box.ask(agent, 1.51)
    assert third.held(1.52)
    assert third.term == first.term + 1
    third.step_down("gone", 2.0)
    box.ask(third, 2.0)
    leader, at = first_to_lead(box, [first, second, third], 2.0, 9.0)
    assert leader in (0, 1)
    assert at >= 2.0 + HEAD_START_S, "others give the one that was named a head start"


def test_a_renewal_under_way_when_a_leader_steps_down_does_not_keep_the_lease() -> None:
    box, (first, second) = Box(), candidates(2)
    box.ask(first, 0.0)
    wish = first.turn(1.0)
    assert isinstance(wish, PutLease)
    first.step_down("a1", 1.01)
    box.record, box.revision = wish.record, box.revision + 1
    first.written(box.revision, 1.02)
    assert not first.held(1.02)
    box.ask(first, 1.03)
    second.look(1.03)
    box.ask(second, 1.04)
    assert second.held(1.05)


def test_a_renewal_that_came_about_unheard_is_our_own() -> None:
    box, agent = Box(), Election("a", "h", first_term=1)
    box.ask(agent, 0.0)
    wish = agent.turn(1.0)
    assert isinstance(wish, PutLease)
    box.record, box.revision = wish.record, box.revision + 1
    agent.unanswered(1.9)
    box.ask(agent, 2.4)
    assert agent.held(3.5)
    assert agent.term == 1


def test_a_lease_that_ended_before_its_renewal_was_heard_of_is_taken_anew() -> None:
    box, agent = Box(), Election("a", "h", first_term=1)
    box.ask(agent, 0.0)
    agent.look(TTL_S - 0.1)
    wish = agent.turn(TTL_S - 0.1)
    assert isinstance(wish, PutLease)
    assert not agent.held(TTL_S + 0.1), "whoever looks now stops"
    box.record, box.revision = wish.record, box.revision + 1
    agent.written(box.revision, TTL_S + 0.2)
    assert not agent.held(TTL_S + 0.2)
    box.ask(agent, TTL_S + 0.2)
    assert agent.held(TTL_S + 0.2)
    assert agent.term == 2


def test_a_store_that_lost_everything_gives_terms_beyond_those_before() -> None:
    box, agent = Box(), Election("a", "h", first_term=100)
    box.ask(agent, 0.0)
    box.record, box.revision = None, 0
    box.ask(agent, 1.0)
    for tenth in range(11, 80):
        box.ask(agent, tenth / 10)
    assert agent.term > 100
    assert agent.standing is Standing.LEADING


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_never_two_hold_the_lease(seed: int) -> None:
    """Agents whose clocks run apart, that stall between asking and hearing, and lose answers."""
    draw = random.Random(seed)
    box, agents = Box(), candidates(3)
    shifts = [draw.uniform(0.0, 1e6) for _ in agents]
    terms: dict[int, int] = {}
    blocked = [0.0] * 3
    late: list[tuple[float, int, PutLease]] = []
    now = 0.0
    for _ in range(600):
        now += draw.choice((0.02, 0.1, 0.3))
        for entry in [each for each in late if each[0] <= now]:
            late.remove(entry)
            if entry[2].last == box.revision:
                box.record, box.revision = entry[2].record, box.revision + 1
        for number, agent in enumerate(agents):
            clock = now + shifts[number]
            if now < blocked[number]:
                continue
            if agent.held(clock) and draw.random() < 0.02:
                agent.step_down(draw.choice(("", "a0", "a1", "a2")), clock)
            wish = agent.turn(clock)
            if wish is None:
                continue
            chance = draw.random()
            if chance < 0.15:
                if isinstance(wish, PutLease) and draw.random() < 0.7:
                    late.append((now + draw.uniform(0.0, 5.0), number, wish))
                agent.unanswered(clock)
            elif isinstance(wish, PutLease):
                if wish.last == box.revision:
                    box.record, box.revision = wish.record, box.revision + 1
                    agent.written(box.revision, clock)
                else:
                    agent.refused(clock)
            else:
                agent.found(box.record, box.revision, clock)
            if draw.random() < 0.1:
                blocked[number] = now + draw.uniform(0.0, 8.0)
        holders = [n for n, agent in enumerate(agents) if agent.held(now + shifts[n])]
        assert len(holders) <= 1, f"seed {seed}: {holders} hold the lease at {now}"
        for number in holders:
            assert terms.setdefault(agents[number].term, number) == number, f"seed {seed}: a term is shared"
    assert terms
