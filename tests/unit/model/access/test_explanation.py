"""What applies to a client and a subject: at its brokers, and at the gateways of both ends."""

from __future__ import annotations

from msgspec.structs import replace
from tests.kit.access import client, rule, rules
from tests.kit.engines import federation

from mangrove.model.access.explanation import Explanation, explain
from mangrove.model.access.rules import AccessRules, Action
from mangrove.model.topics import Contract, Scope, TopicRules

HOME = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))
RULES = rules(
    rule("may_not", "alert.>", actions=(Action.PUBLISH,), client="guest"),
    rule("may_not", "alert.test", actions=(Action.PUBLISH,), domain="a", to=("b",)),
    rule("may_not", "secret.>", role="crew", actions=(Action.SUBSCRIBE,)),
    crew=("guest", "a/anna"),
)


def explained(name: str, subject: str, other: str = "", access: AccessRules = RULES) -> Explanation:
    shape = replace(federation(("a", "b"), ("b", "c"), topics=HOME), access=access)
    return explain(shape, client(name, "a"), subject, other)


def told(explanation: Explanation) -> list[tuple[str, str, str, str]]:
    return [(step.place, step.question, step.answer, step.rule) for step in explanation.steps]


def test_each_place_is_told_with_the_rule_that_decides() -> None:
    found = explained("guest", "alert.test", "b")
    assert found.roles == ("client", "crew")
    assert told(found) == [
        ("brokers of a", "publish", "no", "access[0]"),
        ("brokers of a", "subscribe", "yes", "access.default"),
        ("gateway of a", "leave for b", "no", "access[1]"),
        ("gateway of b", "enter from a", "no", "access[1]"),
        ("gateway of b", "leave for a", "yes", "access.between"),
        ("gateway of a", "enter from b", "yes", "access.between"),
    ]
    assert found.steps[0].reason == "refused by access[0]"
    assert found.steps[1].reason == "allowed: no rule speaks of it, and access.default says so"


def test_without_another_domain_all_are_told() -> None:
    steps = told(explained("anna", "alert.x"))
    assert len(steps) == 2 + 2 * 4
    assert {answer for _, _, answer, _ in steps} == {"yes"}


def test_of_a_pattern_it_is_told_how_much_may_be_heard() -> None:
    assert told(explained("anna", ">", "b"))[0] == ("brokers of a", "subscribe", "in part", "access[2]")
    assert told(explained("anna", "secret.*", "b"))[0] == ("brokers of a", "subscribe", "no", "access[2]")
    assert told(explained("carl", "secret.*", "b"))[0] == (
        "brokers of a",
        "subscribe",
        "yes",
        "access.default",
    )
    assert told(explained("anna", "plant.*", "b"))[1:] == [
        ("gateway of a", "leave for b", "no", "topics"),
        ("gateway of b", "enter from a", "no", "topics"),
        ("gateway of b", "leave for a", "no", "topics"),
        ("gateway of a", "enter from b", "no", "topics"),
    ]


def test_what_stays_home_stays_there_whatever_rules_say() -> None:
    everything = rules(rule("may", ">"), default="deny")
    for subject, rule_named in (("plant.valve", "topics[0]"), ("$JS.API", "internal subjects")):
        crossings = told(explained("anna", subject, "b", everything))[-4:]
        assert {(answer, rule) for _, _, answer, rule in crossings} == {("no", rule_named)}
