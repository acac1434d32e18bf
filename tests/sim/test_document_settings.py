"""Access rules, limits and regions change between production engines in virtual time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mangrove.model.access.rules import AccessRules, Action, Default, Effect, Rule, Who
from mangrove.model.federation import Domain, Federation, Limits, Link, Region
from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.succession import successor
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import SimulatedOverlay

NAMES = ("a", "b", "c", "d")
PLACES = {"a": (0.0, 0.0), "b": (10.0, 0.0), "c": (10.0, 10.0), "d": (0.0, 10.0)}


def ring(*contracts: Contract, authority: SimulatedAuthority | None = None) -> SimulatedOverlay:
    federation = Federation(
        name="ring",
        domains={name: Domain(name=name, base_port=1, location=PLACES[name]) for name in NAMES},
        links=tuple(
            Link(between=(one, other), delay_ms=5.0)
            for one, other in zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True)
        ),
        topics=TopicRules(contracts),
    )
    net = SimulatedOverlay(federation, 1, authority=authority)
    net.run(1.0)
    return net


def change(net: SimulatedOverlay, name: str, **settings: Any) -> None:
    document = net.engines[name].document
    text = successor(document, document.topics.contracts, by="me", at="", settings=settings).text()
    signature = b"" if net.authority is None else net.authority.approve(text)
    net.propose(name, WrittenDocument(text=text, signature=signature))


def forbidding(*subjects: str, domain: str = "c") -> AccessRules:
    rule = Rule(
        place="access[0]",
        effect=Effect.MAY_NOT,
        actions=(Action.SUBSCRIBE,),
        subjects=subjects,
        who=Who(domain=(domain,)),
    )
    return AccessRules(rules=(rule,))


@pytest.mark.parametrize("secured", [False, True])
def test_a_rule_stops_a_topic_at_once_and_its_end_lets_it_flow_again(secured: bool) -> None:
    net = ring(authority=SimulatedAuthority(list(NAMES), 1) if secured else None)
    net.subscribe("c", "news.x", "other.x")
    net.subscribe("d", "news.x")
    net.run(net.now + 0.5)
    assert net.publish("a", "news.x", b"1")
    net.run(net.now + 0.5)
    change(net, "b", access=forbidding("news.>"))
    net.run(net.now + 0.5)
    net.validate()
    assert net.publish("a", "news.x", b"2"), "d may have it still"
    assert not net.publish("d", "news.x", b"3")
    assert net.publish("d", "other.x", b"4")
    net.run(net.now + 0.5)
    change(net, "d", access=AccessRules())
    net.run(net.now + 0.5)
    net.validate()
    assert net.publish("a", "news.x", b"5")
    net.run(net.now + 0.5)
    assert sorted(net.delivered) == sorted(
        [("c", b"1"), ("d", b"1"), ("d", b"2"), ("c", b"4"), ("c", b"5"), ("d", b"5")]
    )


@pytest.mark.parametrize("secured", [False, True])
def test_fewer_subjects_may_be_wanted_and_more_again(secured: bool) -> None:
    net = ring(authority=SimulatedAuthority(list(NAMES), 1) if secured else None)
    net.subscribe("c", *(f"s.{number}" for number in range(10)))
    net.run(net.now + 0.5)
    assert len(net.engines["a"].wanted_elsewhere()) == 10
    change(net, "b", limits=Limits(subjects=4))
    net.run(net.now + 0.5)
    net.validate()
    assert len(net.engines["a"].wanted_elsewhere()) == 4
    net.subscribe("c", "s.later")
    net.run(net.now + 0.5)
    assert len(net.engines["a"].wanted_elsewhere()) == 4
    change(net, "a", limits=Limits(subjects=100))
    net.run(net.now + 0.5)
    net.validate()
    assert len(net.engines["a"].wanted_elsewhere()) == 11


def test_routes_keep_apart_from_a_region_that_is_drawn_later() -> None:
    net = ring(Contract(match="alert.>", paths=1, separation_km=50, apart_from=("north",), deadline_ms=900))
    net.subscribe("c", "alert.>")
    net.run(net.now + 2.0)
    change(net, "a", regions={"north": Region(centre=PLACES["d"], radius_km=100)})
    net.run(net.now + 3.0)
    paths = net.engines["a"].active_paths(net.engines["a"].rules.class_of("alert.x"), "c")
    assert paths in ([("a", "b", "c")], []), "never by d"
    if not paths:
        assert net.engines["a"].federation.regions
    change(net, "a", regions={"north": Region(centre=PLACES["b"], radius_km=100)})
    net.run(net.now + 3.0)
    assert net.engines["a"].active_paths(net.engines["a"].rules.class_of("alert.x"), "c") == [("a", "d", "c")]
    net.validate()


@pytest.mark.parametrize("seed", range(20))
def test_interest_and_rules_that_change_together_leave_nothing_behind(seed: int) -> None:
    """Whatever the order in which they change, what is subscribed to follows from what holds in the end."""
    chance = random.Random(seed)
    net = ring()
    wanted: dict[str, set[str]] = {name: set() for name in NAMES}
    for _ in range(12):
        name, subject = chance.choice(NAMES), f"{chance.choice('xyz')}.{chance.randrange(3)}"
        if subject in wanted[name]:
            net.unsubscribe(name, subject)
            wanted[name].discard(subject)
        else:
            net.subscribe(name, subject)
            wanted[name].add(subject)
        if chance.random() < 0.5:
            rules = forbidding(f"{chance.choice('xyz')}.>", domain=chance.choice(NAMES))
            access = chance.choice((rules, AccessRules(), AccessRules(between=Default.DENY)))
            quorate = max(NAMES, key=lambda each: net.engines[each].document.version)
            change(net, quorate, access=access)
            net.run(net.now + 0.3)
        net.run(net.now + chance.choice((0.0, 0.01, 0.3)))
    net.run(net.now + 3.0)
    net.validate()
    for name, engine in net.engines.items():
        allowed = {
            subject
            for other in NAMES
            if other != name
            for subject in wanted[other]
            if engine.border is None or engine.border.leaving_for(other, subject)
        }
        assert set(engine.wanted_elsewhere()) == allowed
