"""What the profile promises of a move is what truly happens to brokers, and choices made on it hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.loaded_edges import EDGES, PATTERNS, SOURCE, SUBJECTS, World, worlds

from mangrove.control.load.capacity import accepts, load_of
from mangrove.control.offloading.priorities import ranks
from mangrove.control.offloading.problem import Acceptor, Bundle, Choice, Problem, Scope, cost_at
from mangrove.control.offloading.registry import METHODS
from mangrove.control.offloading.trigger import acceptor, next_start
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.balancing import OFFLOADING_METHODS, Balancing

BALANCING = Balancing()


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=0.01)


@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_relief_is_what_the_broker_no_longer_carries(world: World) -> None:
    bundles = world.profile(BALANCING).subscribers(SOURCE, world.audiences.__getitem__)
    before = world.load(SOURCE)
    for bundle in bundles:
        after = world.moved({member.client for member in bundle.members}, "").load(SOURCE)
        truly = before.minus(after)
        assert bundle.output == bundle.load.output
        assert close(bundle.load.output, truly.output)
        patterns = {one.pattern for one in world.subscribers if one.edge == SOURCE}
        nested = bundle.topic == ">" and patterns & {"a.*", "b.>"}
        for metric in (Metric.INPUT, Metric.MATCHING):
            promised, kept = bundle.load.of(metric), truly.of(metric)
            if nested:
                assert promised <= kept + 0.01, "less may be promised than is kept"
            else:
                assert close(promised, kept)


@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_members_free_and_cost_what_is_said(world: World) -> None:
    profile = world.profile(BALANCING)
    for bundle in profile.subscribers(SOURCE, world.audiences.__getitem__):
        for member in bundle.members:
            after = world.moved({member.client}, "").load(SOURCE)
            truly = world.load(SOURCE).minus(after)
            assert close(member.load.output, truly.output)
            assert member.load.input == member.load.matching == 0
        for edge in EDGES[1:]:
            clients = {member.client for member in bundle.members}
            truly = world.moved(clients, edge).load(edge).minus(world.load(edge))
            target = acceptor(
                world.measured(edge, Amounts(1e9, 1e9, 1e9), BALANCING),
                BALANCING,
                domain="d",
                topics=frozenset(profile.topics(edge)),
            )
            assert truly.minus(Amounts(0.01, 0.01, 0.01)).fits(cost_at(target, bundle))
            if target.topics <= set(SUBJECTS) and bundle.topic in SUBJECTS:
                assert close(cost_at(target, bundle).input, truly.input)
                assert close(cost_at(target, bundle).matching, truly.matching)


@pytest.mark.parametrize("patterns", [SUBJECTS, PATTERNS])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_bundles_add_up_to_what_the_broker_counts(patterns: tuple[str, ...], data: st.DataObject) -> None:
    """Where everybody can move and nothing overlaps, bundles are all of the load; else no more than it."""
    world = data.draw(worlds(patterns=patterns))
    bundles = world.profile(BALANCING).subscribers(SOURCE, world.audiences.__getitem__)
    total = Amounts()
    for bundle in bundles:
        total = total.plus(bundle.load)
    truly = world.load(SOURCE)
    assert total.minus(Amounts(0.1, 0.1, 0.1)).fits(truly)
    everybody = all(one.movable and not one.queue for one in world.subscribers if one.edge == SOURCE)
    if everybody and patterns is SUBJECTS:
        assert all(map(close, total, truly))


@dataclass
class Case:
    """An overloaded edge among others, and what may be done about it."""

    world: World
    capacities: dict[str, Amounts]
    loads: dict[str, BrokerLoad]
    problem: Problem


@st.composite
def cases(draw: st.DrawFn) -> Case | None:
    """An edge that is overloaded on one metric or more; None if its subscribers cause no load at all."""
    world = draw(worlds())
    load = world.load(SOURCE)
    if min(load) <= 0:
        return None
    full = draw(st.sets(st.sampled_from(list(Metric)), min_size=1))
    shares = [draw(st.floats(0.96, 1.6) if one in full else st.floats(0.05, 0.9)) for one in Metric]
    capacities = {SOURCE: Amounts(*(load.of(one) / share for one, share in zip(Metric, shares, strict=True)))}
    for edge in EDGES[1:]:
        size = draw(st.floats(0.2, 8.0))
        own = world.load(edge)
        capacities[edge] = Amounts(*(max(load.of(one) * size, own.of(one) / 2, 1.0) for one in Metric))
    loads = {edge: world.measured(edge, capacities[edge], BALANCING) for edge in EDGES}
    others = [loads[edge] for edge in EDGES[1:] if accepts(loads[edge])]
    start = next_start(METHODS["drd"].started_by, [loads[SOURCE], *others], BALANCING)
    assert start is not None
    assert start.source == SOURCE
    profile = world.profile(BALANCING)
    return Case(
        world,
        capacities,
        loads,
        Problem(
            source=SOURCE,
            publishers=False,
            scope=Scope.DOMAIN,
            capacity=capacities[SOURCE],
            load=load_of(loads[SOURCE]),
            need=start.need,
            bundles=profile.subscribers(SOURCE, world.audiences.__getitem__, loads[SOURCE]),
            acceptors=tuple(
                acceptor(loads[edge], BALANCING, domain="d", topics=frozenset(profile.topics(edge)))
                for edge in start.acceptors
            ),
        ),
    )


def applied(world: World, choice: Choice) -> World:
    for move in choice.moves:
        world = world.moved({member.client for member in move.members}, move.to.broker)
    return world


@pytest.mark.parametrize("name", OFFLOADING_METHODS)
@settings(max_examples=80, deadline=None)
@given(case=cases())
def test_after_a_choice_nobody_who_took_load_is_overloaded(name: str, case: Case | None) -> None:
    if case is None:
        return
    choice = METHODS[name].choose(case.problem)
    topics = [move.topic for move in choice.moves]
    assert len(topics) == len(set(topics)), "no topic has two targets"
    after = applied(case.world, choice)
    for edge in {move.to.broker for move in choice.moves}:
        load = after.measured(edge, case.capacities[edge], BALANCING)
        assert load.measured is not LoadState.OVERLOAD
        assert max(load.utilisation.values()) < BALANCING.high
    if not choice.unmet:
        load = after.measured(SOURCE, case.capacities[SOURCE], BALANCING)
        assert load.measured is not LoadState.OVERLOAD, "what was promised is kept"


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_nobody_urgent_goes_while_somebody_patient_who_would_do_stays(case: Case | None) -> None:
    """Who would do: of the same class, frees at least as much of what is needed, and fits in its place."""
    if case is None:
        return
    choice = METHODS["drd"].choose(case.problem)
    rank = ranks(case.problem)
    bundles = {bundle.topic: bundle for bundle in case.problem.bundles}
    moved = {move.topic for move in choice.moves}

    def would_do(patient: Bundle, urgent: Bundle, target: Acceptor) -> bool:
        frees = all(patient.load.of(metric) >= urgent.load.of(metric) for metric in case.problem.need)
        room = target.room
        for other in choice.moves:
            if other.to == target and other.topic != urgent.topic:
                room = room.minus(other.cost)
        return frees and cost_at(target, patient).plus(Amounts(0.01, 0.01, 0.01)).fits(room)

    for move in choice.moves:
        urgent = bundles[move.topic]
        for patient in bundles.values():
            same_class = rank[patient.audience] == rank[urgent.audience]
            if move.whole and same_class and patient.deadline_s > urgent.deadline_s:
                assert patient.topic in moved or not would_do(patient, urgent, move.to)
