"""What the rules decide, against an oracle that compares everything with everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.access import DOMAINS, access_rules, patterns, principals, subjects

from mangrove.model.access.analysis import access_warnings, contradictions
from mangrove.model.access.evaluation import AccessJudge, Extent
from mangrove.model.access.pattern_index import PatternIndex
from mangrove.model.access.permissions import PatternLists, permissions_of
from mangrove.model.access.rules import AccessRules, Action, Default, Effect, Principal, Rule
from mangrove.model.shared_names import MIRROR_PREFIX
from mangrove.model.subjects import covers, matches
from mangrove.model.topics import overlaps
from mangrove.overlay.forwarding.border import Border


def _has_role(rules: AccessRules, principal: Principal, wanted: tuple[str, ...]) -> bool:
    crew = rules.roles.get("crew", ())
    of_crew = principal.client in crew or f"{principal.domain}/{principal.client}" in crew
    return not wanted or principal.role in wanted or (of_crew and "crew" in wanted)


def _meant(rules: AccessRules, rule: Rule, principal: Principal) -> bool:
    who = rule.who
    return (
        (not who.domain or principal.domain in who.domain)
        and (not who.client or principal.client in who.client)
        and _has_role(rules, principal, who.role)
    )


def _verdict(
    rules: list[Rule], forbidding: list[Rule], action: Action, subject: str, default: Default
) -> bool:
    def speaks(rule: Rule, effect: Effect) -> bool:
        named = any(matches(pattern, subject) for pattern in rule.subjects)
        return rule.effect is effect and action in rule.actions and named

    if any(speaks(rule, Effect.MAY_NOT) for rule in forbidding):
        return False
    return default is Default.ALLOW or any(speaks(rule, Effect.MAY) for rule in rules)


def naive(rules: AccessRules, principal: Principal, action: Action, subject: str) -> bool:
    """What a broker should let a client do."""
    speaking = [each for each in rules.rules if each.everywhere and _meant(rules, each, principal)]
    return _verdict(speaking, speaking, action, subject, rules.default)


def naive_crossing(rules: AccessRules, origin: str, destination: str, subject: str) -> bool:
    """What gateways should let pass."""
    strict = Default.DENY if Default.DENY in (rules.default, rules.between) else Default.ALLOW
    for action, here, there in (
        (Action.PUBLISH, origin, destination),
        (Action.SUBSCRIBE, destination, origin),
    ):
        speaking = [
            each
            for each in rules.rules
            if (not each.who.domain or here in each.who.domain)
            and (not (each.to + each.origins) or there in each.to + each.origins)
        ]
        everybody = [each for each in speaking if not each.who.role and not each.who.client]
        if not _verdict(speaking, everybody, action, subject, strict):
            return False
    return True


@given(st.lists(patterns, max_size=12), patterns)
def test_the_index_finds_what_covers_and_what_overlaps(known: list[str], asked: str) -> None:
    index: PatternIndex[int] = PatternIndex()
    for number, pattern in enumerate(known):
        index.add(pattern, number)
    assert sorted(index.covering(asked)) == [n for n, each in enumerate(known) if covers(each, asked)]
    assert sorted(index.overlapping(asked)) == [n for n, each in enumerate(known) if overlaps(each, asked)]


@given(access_rules(), principals, st.sampled_from(Action), subjects)
def test_a_client_may_what_the_oracle_says(
    rules: AccessRules, principal: Principal, action: Action, subject: str
) -> None:
    decision = AccessJudge(rules).decide(principal, action, subject)
    assert decision.allowed == naive(rules, principal, action, subject)
    named = {each.place for each in rules.rules} | {"access.default"}
    assert decision.place in named


@given(access_rules(), st.permutations(DOMAINS), subjects)
def test_between_domains_passes_what_the_oracle_says(
    rules: AccessRules, domains: list[str], subject: str
) -> None:
    origin, destination, _ = domains
    judge = AccessJudge(rules)
    expected = naive_crossing(rules, origin, destination, subject)
    assert judge.crossing(origin, destination, subject).allowed == expected
    assert judge.crossing(origin, destination, subject).allowed == expected, "remembered"
    out, into = Border(origin, DOMAINS, rules), Border(destination, DOMAINS, rules)
    bit = 1 << DOMAINS.index(destination)
    assert bool(out.leaving(subject).allowed & bit) == expected
    assert into.entering(origin, subject).allowed == expected
    if expected:
        assert out.tells(destination, subject), "else it would never be asked for"
        assert into.hears(subject), "else nobody would be told"


@given(access_rules(), st.permutations(DOMAINS), patterns, subjects)
def test_interest_is_left_out_only_where_nothing_under_it_may_pass(
    rules: AccessRules, domains: list[str], pattern: str, subject: str
) -> None:
    origin, destination, _ = domains
    if matches(pattern, subject) and naive_crossing(rules, origin, destination, subject):
        assert Border(origin, DOMAINS, rules).tells(destination, pattern)
        assert Border(destination, DOMAINS, rules).hears(pattern)


@given(access_rules(), subjects)
def test_origins_of_one_class_are_judged_alike(rules: AccessRules, subject: str) -> None:
    border = Border("a", DOMAINS, rules)
    if border.class_of("b") == border.class_of("c"):
        assert border.entering("b", subject).allowed == border.entering("c", subject).allowed


@given(access_rules(), principals, patterns, subjects)
def test_the_extent_of_a_pattern_agrees_with_its_subjects(
    rules: AccessRules, principal: Principal, pattern: str, subject: str
) -> None:
    extent = AccessJudge(rules).extent(principal, Action.SUBSCRIBE, pattern)
    if matches(pattern, subject):
        allowed = naive(rules, principal, Action.SUBSCRIBE, subject)
        assert extent is not (Extent.NONE if allowed else Extent.ALL)


def permitted(lists: PatternLists, subject: str) -> bool:
    """What nats-server makes of the lists: denied wins, and there is always a list of what is allowed."""
    if any(matches(pattern, subject) for pattern in lists.deny):
        return False
    return any(matches(pattern, subject) for pattern in lists.allow)


@given(access_rules(), principals, subjects)
def test_permissions_say_the_same_as_the_rules_also_of_second_copies(
    rules: AccessRules, principal: Principal, subject: str
) -> None:
    permissions = permissions_of(rules, principal)
    for action, lists in ((Action.PUBLISH, permissions.publish), (Action.SUBSCRIBE, permissions.subscribe)):
        expected = naive(rules, principal, action, subject)
        assert permitted(lists, subject) == expected
        assert permitted(lists, f"{MIRROR_PREFIX}{subject}") == expected


@given(access_rules(), principals, st.sampled_from(DOMAINS), st.sampled_from(Action), subjects)
def test_a_rule_that_contradicts_another_never_decides(
    rules: AccessRules, principal: Principal, other: str, action: Action, subject: str
) -> None:
    dead = {mistake.path for mistake in contradictions(rules)}
    access_warnings(rules)
    for rule in rules.rules:
        if rule.effect is Effect.MAY and all(
            f"{rule.place}.subjects[{n}]" in dead for n in range(len(rule.subjects))
        ):
            judge = AccessJudge(rules)
            decision = judge.decide(principal, action, subject)
            assert not (decision.allowed and decision.place == rule.place)
            if rule.who.whole_domains and other != principal.domain:
                passed = judge.crossing(principal.domain, other, subject)
                assert not (passed.allowed and passed.place == rule.place)
