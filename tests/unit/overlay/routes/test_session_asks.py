"""Asks beyond the contract: leases, limits, and the contract that holds on the way to a domain."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.questions.session_quality import (
    LEASE_S,
    NOTHING_MORE,
    AskRequest,
    Quality,
    Role,
    allowed,
    raised,
    strictest,
)
from mangrove.model.topics import Contract, Scope, SessionLimits, TopicRules
from mangrove.overlay.routes import session_asks
from mangrove.overlay.routes.effective_contracts import EffectiveContracts
from mangrove.overlay.routes.session_asks import AskRefusedError, SessionAsks

RULES = TopicRules(
    (
        Contract(match="alert.fire", paths=2, limits=SessionLimits(paths=3)),
        Contract(
            match="alert.>",
            deadline_ms=100,
            limits=SessionLimits(deadline_ms=20, paths=3, resiliency=0.999),
        ),
        Contract(match="plant.>", scope=Scope.DOMAIN),
        Contract(match="sensor.>", deadline_ms=500),
    )
)


def request(session: str, subject: str, role: Role = Role.SUBSCRIBER, **quality: float) -> AskRequest:
    return AskRequest(session=session, role=role, subject=subject, quality=Quality(**quality))  # type: ignore[arg-type]


def test_the_strictest_of_all_leases_is_in_force_until_they_end() -> None:
    asks = SessionAsks(RULES)
    assert asks.ask(request("1", "alert.sea", paths=2), 0.0)
    assert asks.ask(request("2", "alert.land.*", deadline_ms=50), 1.0)
    assert asks.ask(request("3", "alert.sea", paths=2), 2.0)
    assert asks.in_force() == [(Role.SUBSCRIBER, 1, Quality(deadline_ms=50, paths=2), 3)]
    assert not asks.ask(request("1", "alert.sea", paths=2), 3.0), "a renewal changes nothing"
    assert asks.timer() == 1.0 + LEASE_S
    assert not asks.expire(6.9)
    assert asks.expire(1.0 + LEASE_S)
    assert asks.of(Role.SUBSCRIBER) == {1: Quality(paths=2)}
    assert asks.of(Role.PUBLISHER) == {}
    assert asks.ask(request("1", "alert.sea", paths=3), 7.5), "the same session asks for something else"
    assert asks.of(Role.SUBSCRIBER) == {1: Quality(paths=3)}
    assert asks.ask(AskRequest(session="1", end=True), 8.0)
    assert not asks.ask(AskRequest(session="1", end=True), 8.0)
    assert asks.expire(8.0)
    assert asks.in_force() == []
    assert math.isinf(asks.timer())
    assert asks.problems() == []


@pytest.mark.parametrize(
    ("subject", "quality", "refused", "hint"),
    [
        ("free", {"paths": 2}, "no contract governs free", "federation file"),
        ("plant.x", {"paths": 2}, "stays in its domain", ""),
        ("sensor.x", {"deadline_ms": 100}, "deadline_ms: 100 is beyond", "no `limits`"),
        ("alert.sea", {}, "nothing is asked for", "deadline_ms of 20 or more, up to 3 paths"),
        ("alert.sea", {"deadline_ms": 19.5}, "deadline_ms: 19.5 is beyond", "deadline_ms of 20 or more"),
        ("alert.sea", {"paths": 4}, "paths: 4 is beyond", "up to 3 paths"),
        ("alert.sea", {"resiliency": 0.9999}, "resiliency: 0.9999 is beyond", "resiliency up to 0.999"),
        ("alert.fire", {"deadline_ms": 50}, "deadline_ms: 50 is beyond", "up to 3 paths"),
        ("alert.>", {"paths": 2}, "alert.> is wider than one contract", "alert.fire, alert.>"),
        (">", {"paths": 2}, "> is wider than one contract", "alert.fire, alert.>, plant.>, sensor.>"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(
    subject: str, quality: dict[str, float], refused: str, hint: str
) -> None:
    asks = SessionAsks(RULES)
    with pytest.raises(AskRefusedError) as found:
        asks.ask(request("1", subject, Role.SUBSCRIBER, **quality), 0.0)
    assert refused in found.value.message
    assert hint in found.value.hint
    assert asks.in_force() == []


def test_so_many_sessions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_asks, "MAX_ASKS", 2)
    asks = SessionAsks(RULES)
    asks.ask(request("1", "alert.sea", paths=2), 0.0)
    asks.ask(request("2", "alert.sea", paths=2), 0.0)
    with pytest.raises(AskRefusedError, match="which is the most"):
        asks.ask(request("3", "alert.sea", paths=2), 0.0)
    asks.ask(request("1", "alert.sea", paths=2), 1.0)


def test_a_destination_gets_what_is_asked_here_and_there() -> None:
    asks = SessionAsks(RULES)
    contracts = EffectiveContracts(RULES, asks)
    assert contracts.at(1, "b") is RULES.contracts[1]
    asks.ask(request("1", "alert.sea", Role.PUBLISHER, deadline_ms=60), 0.0)
    asks.ask(request("2", "alert.sea", Role.SUBSCRIBER, paths=3), 0.0)
    contracts.own_changed()
    assert contracts.heard({"b": {1: Quality(paths=2)}, "c": {}})
    assert not contracts.heard({"b": {1: Quality(paths=2)}})
    found = contracts.at(1, "b")
    assert (found.deadline_ms, found.paths) == (60, 2)
    found = contracts.at(1, "c")
    assert (found.deadline_ms, found.paths) == (60, 1), "subscribers here say nothing of the way to c"
    assert contracts.at(0, "b") == RULES.contracts[0]
    beyond = {
        1: Quality(deadline_ms=1, paths=60, resiliency=0.99999),
        3: Quality(paths=9),
        77: Quality(paths=2),
    }
    assert contracts.heard({"b": beyond})
    found = contracts.at(1, "b")
    assert (found.deadline_ms, found.paths, found.resiliency) == (20, 3, 0.999), "cut down to the limits"
    assert contracts.at(3, "b") == RULES.contracts[3]
    assert contracts.at(77, "b").paths == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "end"]),
            st.sampled_from("abcd"),
            st.sampled_from(Role),
            st.sampled_from(["alert.sea", "alert.fire"]),
            st.integers(1, 3),
            st.floats(0, 4),
        ),
        max_size=30,
    )
)
def test_what_is_in_force_is_what_the_leases_say(
    steps: list[tuple[str, str, Role, str, int, float]],
) -> None:
    """Against a plain list of who asked for what, and when."""
    asks, expected, now = SessionAsks(RULES), dict[str, tuple[Role, int, int, float]](), 0.0
    for what, session, role, subject, paths, later in steps:
        now += later
        asks.expire(now)
        expected = {name: each for name, each in expected.items() if each[3] > now}
        if what == "end":
            asks.ask(AskRequest(session=session, end=True), now)
            expected.pop(session, None)
        else:
            asks.ask(request(session, subject, role, paths=paths), now)
            expected[session] = (role, 0 if subject == "alert.fire" else 1, paths, now + LEASE_S)
        assert asks.problems() == []
        assert asks.timer() == min((each[3] for each in expected.values()), default=math.inf)
        for side in Role:
            most: dict[int, int] = {}
            for _, topic_class, wanted, _ in (each for each in expected.values() if each[0] is side):
                most[topic_class] = max(wanted, most.get(topic_class, 0))
            assert {at: quality.paths for at, quality in asks.of(side).items()} == most


qualities = st.builds(
    Quality,
    deadline_ms=st.none() | st.floats(1, 1000),
    paths=st.none() | st.integers(1, 8),
    resiliency=st.none() | st.floats(0.5, 0.9999),
)
limits = st.builds(
    SessionLimits,
    deadline_ms=st.none() | st.floats(1, 1000),
    paths=st.none() | st.integers(1, 8),
    resiliency=st.none() | st.floats(0.5, 0.9999),
)


@given(st.lists(qualities, max_size=5), limits)
def test_what_is_asked_never_lowers_a_contract_and_never_passes_the_limits(
    asked: list[Quality], bounds: SessionLimits
) -> None:
    contract = Contract(match="x", deadline_ms=300, paths=2, resiliency=0.9, limits=bounds)
    found = raised(contract, allowed(strictest(asked), bounds))
    assert found.deadline_ms is not None
    assert found.resiliency is not None
    assert found.deadline_ms <= 300
    assert found.paths >= 2
    assert found.resiliency >= 0.9
    assert found.deadline_ms >= min(300, bounds.deadline_ms or 300)
    assert found.paths <= max(2, bounds.paths or 2)
    assert found.resiliency <= max(0.9, bounds.resiliency or 0.9)
    assert found.max_paths >= found.paths
    assert strictest([*asked, *asked]) == strictest(asked)
    assert raised(contract, NOTHING_MORE) is contract
