"""Which contracts have subscribers where, also when thousands of both are there."""

from __future__ import annotations

from time import process_time

from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.overlay.interest.interest_database import DomainInterest
from mangrove.overlay.interest.wanted_classes import WantedClasses

MANY = 3000


def contracts(deadline_ms: float) -> tuple[Contract, ...]:
    return tuple(Contract(match=f"plant.{number}.>", deadline_ms=deadline_ms) for number in range(MANY))


def test_other_terms_of_thousands_of_contracts_do_not_stop_what_has_thousands_of_subscribers() -> None:
    rules = RulesInForce(TopicRules(contracts(100.0), tuple(range(MANY)), 2 * MANY))
    classes = WantedClasses(rules)
    wants = [f"plant.{number}.x" for number in range(0, MANY, 2)] + ["plant.7.*", "other.x"]
    rules.adopt(TopicRules(contracts(50.0), tuple(range(MANY, 2 * MANY)), 2 * MANY))
    began = process_time()
    classes.contracts_changed(("a", subject) for subject in wants)
    assert process_time() - began < 1.0
    assert classes.take_changed()
    expected = {(MANY + number, "a") for number in (7, *range(0, MANY, 2))}
    assert classes.keys() == expected
    few = [("a", DomainInterest(1, 1, wants[-4:]))]
    assert classes.counted_anew(few) <= expected


def test_what_is_wanted_is_not_compared_with_thousands_of_contracts() -> None:
    rules = RulesInForce(TopicRules(contracts(100.0), tuple(range(MANY)), MANY))
    classes = WantedClasses(rules)
    wants = [f"plant.{number}.x" for number in range(MANY)]
    began = process_time()
    for domain in ("a", "b"):
        for subject in wants:
            classes.want(domain, subject)
    for subject in wants[1:]:
        classes.forget("a", subject)
    assert process_time() - began < 1.0
    assert classes.keys() == {(0, "a"), *((number, "b") for number in range(MANY))}
    classes.want("b", "plant.*.x")
    assert classes.take_changed()
    classes.forget_domain("b")
    assert classes.take_changed()
    assert classes.keys() == {(0, "a")}
