"""What the rules decide, against an oracle that compares everything with everything."""

from __future__ import annotations

from itertools import combinations, permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.access import DOMAINS, TOKENS, access_rules, patterns, principals

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


SUBJECTS = [".".join(tokens) for length in (1, 2, 3) for tokens in product(TOKENS, repeat=length)]
"""All that the drawn patterns can tell apart, but for the longest: each set of rules is asked for all."""

modestly = settings(max_examples=40)


@modestly
@given(access_rules(), principals)
def test_a_client_may_what_the_oracle_says(rules: AccessRules, principal: Principal) -> None:
    judge = AccessJudge(rules)
    named = {each.place for each in rules.rules} | {"access.default"}
    for action, subject in product(Action, SUBJECTS):
        decision = judge.decide(principal, action, subject)
        assert decision.allowed == naive(rules, principal, action, subject)
        assert decision.place in named


@modestly
@given(access_rules())
def test_between_domains_passes_what_the_oracle_says(rules: AccessRules) -> None:
    judge = AccessJudge(rules)
    borders = {domain: Border(domain, DOMAINS, rules) for domain in DOMAINS}
    for (origin, destination), subject in product(permutations(DOMAINS, 2), SUBJECTS):
        expected = naive_crossing(rules, origin, destination, subject)
        for _ in ("judged", "remembered"):
            assert judge.crossing(origin, destination, subject).allowed == expected
        bit = 1 << DOMAINS.index(destination)
        assert bool(borders[origin].leaving(subject).allowed & bit) == expected
        assert borders[destination].entering(origin, subject).allowed == expected
    for subject in SUBJECTS:
        for first, second in combinations([each for each in DOMAINS if each != "a"], 2):
            if borders["a"].class_of(first) == borders["a"].class_of(second):
                both = [borders["a"].entering(each, subject).allowed for each in (first, second)]
                assert both[0] == both[1], "origins of one class are judged alike"


@modestly
@given(access_rules(), patterns)
def test_interest_is_left_out_only_where_nothing_under_it_may_pass(rules: AccessRules, pattern: str) -> None:
    under = [subject for subject in SUBJECTS if matches(pattern, subject)]
    for origin, destination in permutations(DOMAINS, 2):
        if any(naive_crossing(rules, origin, destination, subject) for subject in under):
            assert Border(origin, DOMAINS, rules).tells(destination, pattern)
            assert Border(destination, DOMAINS, rules).hears(pattern)


@modestly
@given(access_rules(), principals, patterns)
def test_the_extent_of_a_pattern_agrees_with_its_subjects(
    rules: AccessRules, principal: Principal, pattern: str
) -> None:
    extent = AccessJudge(rules).extent(principal, Action.SUBSCRIBE, pattern)
    under = [subject for subject in SUBJECTS if matches(pattern, subject)]
    verdicts = {naive(rules, principal, Action.SUBSCRIBE, subject) for subject in under}
    assert extent is not Extent.NONE or True not in verdicts
    assert extent is not Extent.ALL or False not in verdicts


def permitted(lists: PatternLists, subject: str) -> bool:
    """What nats-server makes of the lists: denied wins, and there is always a list of what is allowed."""
    if any(matches(pattern, subject) for pattern in lists.deny):
        return False
    return any(matches(pattern, subject) for pattern in lists.allow)


@modestly
@given(access_rules(), principals)
def test_permissions_say_the_same_as_the_rules_also_of_second_copies(
    rules: AccessRules, principal: Principal
) -> None:
    found = permissions_of(rules, principal)
    for subject in SUBJECTS:
        for action, lists in ((Action.PUBLISH, found.publish), (Action.SUBSCRIBE, found.subscribe)):
            expected = naive(rules, principal, action, subject)
            if not any(matches(pattern, subject) for pattern in lists.withheld):
                assert permitted(lists, subject) == expected
            assert expected or not permitted(lists, subject)
            assert permitted(lists, f"{MIRROR_PREFIX}{subject}") == permitted(lists, subject)


@modestly
@given(access_rules(), principals)
def test_a_rule_that_contradicts_another_never_decides(rules: AccessRules, principal: Principal) -> None:
    dead = {mistake.path for mistake in contradictions(rules)}
    access_warnings(rules)
    judge = AccessJudge(rules)
    for rule in rules.rules:
        places = {f"{rule.place}.subjects[{number}]" for number in range(len(rule.subjects))}
        if rule.effect is Effect.MAY and places <= dead:
            for action, subject in product(Action, SUBJECTS):
                decision = judge.decide(principal, action, subject)
                assert not (decision.allowed and decision.place == rule.place)
