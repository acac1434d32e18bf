"""Classes: the numbers by which frames name contracts."""

from __future__ import annotations

from mangrove.model.federation import Domain, Federation
from mangrove.model.topics import BEST_EFFORT, Contract, TopicRules, Withdrawn
from mangrove.model.versions.rules_in_force import RulesInForce

ALERT, SENSOR, OLD = (Contract(match=match) for match in ("alert.>", "sensor.>", "old.>"))


def test_without_a_history_classes_are_positions() -> None:
    rules = TopicRules((ALERT, SENSOR))
    assert list(rules.numbered()) == [(0, ALERT), (1, SENSOR)]
    assert [rules.class_of(subject) for subject in ("alert.a", "sensor.a", "x")] == [0, 1, 2]
    assert rules.unmatched == 2
    assert rules.contract_at(2) is rules.contract_at(99) is BEST_EFFORT


def test_a_class_keeps_its_meaning_when_the_order_changes_or_a_contract_is_withdrawn() -> None:
    rules = TopicRules((SENSOR, ALERT), ids=(1, 0), rest=2, withdrawn=(Withdrawn(7, OLD),))
    in_force = RulesInForce(rules)
    for each in (rules, in_force):
        assert each.class_of("alert.a") == 0
        assert each.class_of("old.a") == each.unmatched == 2
        assert [each.contract_at(number) for number in (0, 1, 2, 7)] == [ALERT, SENSOR, BEST_EFFORT, OLD]
    assert in_force.knows(7)
    assert not in_force.knows(2)


def test_rules_that_are_to_come_are_understood_before_they_hold() -> None:
    in_force = RulesInForce(TopicRules((ALERT,)))
    coming = TopicRules((ALERT, SENSOR), ids=(0, 2), rest=1)
    in_force.understand(coming)
    assert in_force.contract_at(2) == SENSOR
    assert in_force.class_of("sensor.a") == 1
    in_force.adopt(coming)
    assert in_force.class_of("sensor.a") == 2


def test_domains_may_have_numbers_of_their_own() -> None:
    domains = {name: Domain(name=name, base_port=1) for name in ("b", "a", "c")}
    assert Federation(name="f", domains=domains).domain_order == ("a", "b", "c")
    assert Federation(name="f", domains=domains, numbers=("b", "c", "a")).domain_order == ("b", "c", "a")
