"""Access rules in the federation file: what is taken, and each mistake with its place."""

from __future__ import annotations

import pytest

from mangrove.config import parse_federation
from mangrove.model.access.analysis import MAX_WARNINGS, access_warnings
from mangrove.model.access.rules import AccessRules, Action, Default, Effect, Rule, Who
from mangrove.model.contract_warnings import federation_warnings

FEDERATION = """
federation: three
domains: {{a: , b: , c: }}
links: [{{between: [a, b]}}, {{between: [b, c]}}]
topics: [{{match: "plant.>", scope: domain}}]
access: {access}
"""
HEAR = "may: [subscribe], subjects: [x]"


def read(access: str) -> AccessRules:
    return parse_federation(FEDERATION.format(access=access), "x").require().access


def mistakes(access: str) -> list[str]:
    return [str(each) for each in parse_federation(FEDERATION.format(access=access), "x").mistakes]


def test_without_rules_everything_is_allowed() -> None:
    federation = parse_federation("federation: one\ndomains: {a: }", "x").require()
    assert federation.access == AccessRules()
    assert not federation.access


def test_a_section_with_roles_defaults_and_rules_is_read() -> None:
    found = read(
        """
  default: deny
  between: deny
  roles: {crew: [anna, b/ben], nobody: []}
  rules:
    - {who: {domain: [a, b], role: crew}, may: [publish, subscribe], subjects: ["alert.>", news.*]}
    - {who: {domain: "*", client: carl}, may_not: publish, subjects: "alert.test", to: c}
    - {may_not: [subscribe], subjects: ["*"], origin: [b]}
"""
    )
    assert found == AccessRules(
        default=Default.DENY,
        between=Default.DENY,
        roles={"crew": ("anna", "b/ben"), "nobody": ()},
        rules=(
            Rule(
                place="access.rules[0]",
                effect=Effect.MAY,
                actions=(Action.PUBLISH, Action.SUBSCRIBE),
                subjects=("alert.>", "news.*"),
                who=Who(domain=("a", "b"), role=("crew",)),
            ),
            Rule(
                place="access.rules[1]",
                effect=Effect.MAY_NOT,
                actions=(Action.PUBLISH,),
                subjects=("alert.test",),
                who=Who(client=("carl",)),
                to=("c",),
            ),
            Rule(
                place="access.rules[2]",
                effect=Effect.MAY_NOT,
                actions=(Action.SUBSCRIBE,),
                subjects=("*",),
                origins=("b",),
            ),
        ),
    )


def test_a_list_is_short_for_the_rules_and_named_by_its_place() -> None:
    assert [each.place for each in read('[{may_not: publish, subjects: ["x"]}]').rules] == ["access[0]"]
    assert mistakes('[{may_not: publish, subjects: ["x..y"]}]')[0].startswith(
        "access[0].subjects[0]: found 'x..y'"
    )
    assert mistakes("[{may_not: shout, subjects: [x]}]")[0].startswith("access[0].may_not[0]: found 'shout'")


@pytest.mark.parametrize(
    ("access", "mistake"),
    [
        (
            f"[{{who: {{domain: d}}, {HEAR}}}]",
            "access[0].who.domain: there is no domain 'd' (allowed: a, b, c)",
        ),
        (
            f"[{{who: {{role: boss}}, {HEAR}}}]",
            "access[0].who.role: there is no role 'boss' (allowed: client, ",
        ),
        (
            f"[{{who: {{role: gateway}}, {HEAR}}}]",
            "access[0].who.role: 'gateway' is a part of the federation",
        ),
        (f'[{{who: {{domain: ["*", a]}}, {HEAR}}}]', "access[0].who.domain: `*` is everybody already"),
        (
            f"[{{who: {{team: x}}, {HEAR}}}]",
            "access[0].who.team: unknown key (allowed: domain, role, client)",
        ),
        (
            f"[{{whom: {{}}, {HEAR}}}]",
            "access[0].whom: unknown key (allowed: who, may, may_not, subjects, to,",
        ),
        ("[{subjects: [x]}]", "access[0]: says neither `may` nor `may_not`"),
        ("[{may: [publish], may_not: [publish], subjects: [x]}]", "access[0]: says both `may` and `may_not`"),
        ("[{may: publish, subjects: []}]", "access[0].subjects: is empty: the rule would say nothing"),
        ("[{may: publish, subjects: [x, y, x]}]", "access[0].subjects[2]: x is named twice"),
        (
            '[{may: publish, subjects: ["$JS.>"]}]',
            "access[0].subjects[0]: found '$JS.>': subjects that start",
        ),
        ('[{may: publish, subjects: ["_MGR.>"]}]', "access[0].subjects[0]: found '_MGR.>': subjects that"),
        (
            '[{may: publish, subjects: ["a.>.b"]}]',
            "access[0].subjects[0]: found 'a.>.b': not a valid subject",
        ),
        ("[{may: subscribe, subjects: [x], to: [b]}]", "access[0].to: goes with publish alone"),
        ("[{may: publish, subjects: [x], origin: [b]}]", "access[0].origin: goes with subscribe alone"),
        ("[{may: publish, subjects: [x], to: [d]}]", "access[0].to: there is no domain 'd'"),
        (
            "[{who: {domain: a}, may: publish, subjects: [x], to: [a]}]",
            "access[0].to: a is the domain itself",
        ),
        ("{roles: {client: [x]}}", "access.roles.client: is a role that every federation has"),
        ("{default: maybe}", "access.default: found 'maybe'"),
        ("7", "access: found 7"),
    ],
)
def test_each_mistake_is_told_with_its_place(access: str, mistake: str) -> None:
    found = mistakes(access)
    assert any(each.startswith(mistake) for each in found), found


@pytest.mark.parametrize(
    ("allowed", "forbidden"),
    [
        ("{may: publish, subjects: [x]}", "{may_not: publish, subjects: [x]}"),
        ("{may: publish, subjects: [x.y]}", '{may_not: [publish, subscribe], subjects: ["x.>"]}'),
        (
            "{who: {client: anna}, may: publish, subjects: [x]}",
            "{who: {domain: '*'}, may_not: publish, subjects: [x]}",
        ),
        (
            "{who: {domain: a, client: anna}, may: publish, subjects: [x], to: [b]}",
            "{who: {domain: [a, b]}, may_not: publish, subjects: ['*']}",
        ),
        (
            "{who: {client: anna}, may: subscribe, subjects: [x]}",
            "{who: {role: crew}, may_not: subscribe, subjects: [x]}",
        ),
    ],
)
def test_what_is_allowed_and_always_forbidden_is_a_contradiction(allowed: str, forbidden: str) -> None:
    text = "\n  default: deny\n  roles: {{crew: [anna]}}\n  rules:\n    - {}\n    - {}\n"
    for order in ((allowed, forbidden), (forbidden, allowed)):
        may = order.index(allowed)
        (found,) = mistakes(text.format(*order))
        place = f"access.rules[{may}].subjects[0]: is allowed here and forbidden by access.rules[{1 - may}]"
        assert found.startswith(place)


@pytest.mark.parametrize(
    ("allowed", "forbidden"),
    [
        ("{may: publish, subjects: ['x.>']}", "{may_not: publish, subjects: [x.y]}"),
        ("{may: publish, subjects: [x]}", "{may_not: subscribe, subjects: [x]}"),
        ("{may: publish, subjects: [x]}", "{who: {domain: a}, may_not: publish, subjects: [x]}"),
        ("{may: publish, subjects: [x]}", "{may_not: publish, subjects: [x], to: [b]}"),
        ("{may: publish, subjects: ['x.*']}", "{may_not: publish, subjects: ['x.*.>']}"),
        (
            "{who: {client: anna}, may: publish, subjects: [x]}",
            "{who: {client: ben}, may_not: publish, subjects: [x]}",
        ),
    ],
)
def test_what_is_forbidden_only_in_part_is_no_contradiction(allowed: str, forbidden: str) -> None:
    rules = read(f"\n  default: deny\n  rules:\n    - {allowed}\n    - {forbidden}\n")
    assert access_warnings(rules) == ()


def test_rules_that_say_nothing_new_are_named_and_do_no_harm() -> None:
    found = access_warnings(
        read(
            """
  default: deny
  rules:
    - {may: publish, subjects: ["x.>"]}
    - {who: {domain: a}, may: publish, subjects: [x.y, z]}
    - {may: publish, subjects: ["x.>"]}
    - {may_not: publish, subjects: ["*.*.*"]}
"""
        )
    )
    assert found == (
        "access.rules[1].subjects[0]: is shadowed by access.rules[0], which says the same and more",
        "access.rules[2].subjects[0]: is shadowed by access.rules[0], which says the same and more",
        "access.rules[3].subjects[0]: *.*.* also forbids inboxes of requests that are so long; `>` does not",
    )


def test_what_brokers_cannot_be_told_exactly_is_named() -> None:
    found = access_warnings(
        read(
            """
  default: deny
  rules:
    - {who: {domain: a}, may: subscribe, subjects: ["x.*", "y.*", "*"]}
    - {who: {client: anna}, may: subscribe, subjects: ["x.*.z"]}
    - {who: {domain: b}, may: subscribe, subjects: ["y.*.z"]}
    - {who: {domain: a}, may: publish, subjects: ["z.*", "z.*.z"]}
"""
        )
    )
    assert found == (
        "access.rules[0].subjects[0]: brokers cannot allow x.* beside x.*.z (access.rules[1]) without all of "
        "x.>; for who may both, they allow x.*.z alone",
        "access.rules[0].subjects[2]: brokers cannot allow * without more, and do not; name the first token",
    )


def test_what_is_allowed_anyway_is_told_when_the_federation_starts() -> None:
    federation = parse_federation(FEDERATION.format(access="[{may: publish, subjects: [x]}]"), "x").require()
    without_effect, without_keys = federation_warnings(federation)
    assert without_effect.startswith("access[0]: allows what is allowed anyway")
    assert without_keys == "access: without keys brokers know nobody: rules are kept between domains alone"


@pytest.mark.parametrize("security", ["none", "keys"])
def test_rules_about_clients_need_keys(security: str) -> None:
    text = FEDERATION.format(access="[{who: {client: x}, may_not: publish, subjects: [x]}]")
    federation = parse_federation(f"{text}security: {security}\n", "x").require()
    named = (
        "rules are kept between domains alone, and those that name roles or clients (access[0], …) not at all"
    )
    told = [each for each in federation_warnings(federation) if each.endswith(named)]
    assert len(told) == (security == "none")


def test_of_very_many_warnings_the_first_are_told() -> None:
    rules = read(f"[{', '.join(['{may: publish, subjects: [x]}'] * 100)}]")
    found = access_warnings(rules)
    assert (len(found), found[-1]) == (MAX_WARNINGS + 1, "access: 80 more rules have no effect")


def test_rules_are_no_part_of_what_gateways_must_agree_on() -> None:
    closed, opened = (
        parse_federation(FEDERATION.format(access=text), "x").require() for text in ("{default: deny}", "[]")
    )
    assert closed.topology_hash() == opened.topology_hash(), "rules change without stopping every gateway"
    assert closed.digest() != opened.digest(), "hosts of one domain have the same"
