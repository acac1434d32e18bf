"""Names of a domain's own: one to one, there and back, and patterns that match what is to match."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.federation import Domain, Federation
from mangrove.model.names.domain_names import DomainNames
from mangrove.model.names.local_view import local_rules
from mangrove.model.names.mapping import Direction, NameMapping, mapping_problems
from mangrove.model.subjects import covers, matches
from mangrove.model.topics import Contract, TopicRules

TOKENS = "abc"
SUBJECTS = [".".join(tokens) for size in (1, 2, 3, 4) for tokens in product(TOKENS, repeat=size)]

prefixes = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=2).map(".".join)
mappings = st.builds(
    lambda local, federation, whole, direction: NameMapping(
        local=f"{local}.>" if whole else local,
        federation=f"{federation}.>" if whole else federation,
        direction=direction,
    ),
    prefixes,
    prefixes,
    st.booleans(),
    st.sampled_from(Direction),
)
names = st.lists(mappings, max_size=4).map(tuple).filter(lambda some: not mapping_problems(some))
both_ways = names.map(lambda some: tuple(m for m in some if m.direction is Direction.BOTH))
patterns = st.one_of(
    st.lists(st.sampled_from([*TOKENS, "*"]), min_size=1, max_size=3).map(".".join),
    st.lists(st.sampled_from([*TOKENS, "*"]), max_size=2).map(lambda tokens: ".".join([*tokens, ">"])),
)


@given(names)
def test_two_subjects_never_get_one_name(some: tuple[NameMapping, ...]) -> None:
    mapped = DomainNames(some)
    for translate in (mapped.leaving, mapped.entering):
        found = [other for subject in SUBJECTS if (other := translate(subject)) is not None]
        assert len(found) == len(set(found))


@given(both_ways)
def test_what_goes_both_ways_comes_back_as_it_was(some: tuple[NameMapping, ...]) -> None:
    mapped = DomainNames(some)
    for subject in SUBJECTS:
        for there, back in ((mapped.leaving, mapped.entering), (mapped.entering, mapped.leaving)):
            other = there(subject)
            assert other is None or back(other) == subject


@given(names)
def test_directions_only_hold_back(some: tuple[NameMapping, ...]) -> None:
    """What passes has the name that it would have both ways."""
    mapped = DomainNames(some)
    free = DomainNames([NameMapping(local=m.local, federation=m.federation) for m in some])
    for subject in SUBJECTS:
        assert mapped.leaving(subject) in (None, free.leaving(subject))
        assert mapped.entering(subject) in (None, free.entering(subject))


@given(names, patterns)
def test_a_pattern_asks_for_all_that_it_would_match(some: tuple[NameMapping, ...], pattern: str) -> None:
    mapped = DomainNames(some)
    for translate, arrive in (
        (mapped.wanted_here, mapped.entering),
        (mapped.wanted_elsewhere, mapped.leaving),
    ):
        asked = translate(pattern)
        for subject in SUBJECTS:
            arrived = arrive(subject)
            if arrived is not None and matches(pattern, arrived):
                assert any(matches(each, subject) for each in asked)


@given(names, patterns)
def test_a_pattern_asks_for_nothing_else(some: tuple[NameMapping, ...], pattern: str) -> None:
    """But for names under a wildcard that reaches over a part of what is renamed."""
    mapped = DomainNames(some)
    for translate, arrive, spaces in (
        (mapped.wanted_here, mapped.entering, [s for m in some for s in (m.local, m.federation)]),
        (mapped.wanted_elsewhere, mapped.leaving, [s for m in some for s in (m.local, m.federation)]),
    ):
        for asked in translate(pattern):
            for subject in SUBJECTS:
                if matches(asked, subject):
                    arrived = arrive(subject)
                    exact = arrived is not None and matches(pattern, arrived)
                    assert exact or (asked == pattern and any(covers(each, subject) for each in spaces))


@given(both_ways.filter(bool), st.data(), patterns)
def test_a_pattern_inside_one_space_is_translated_exactly(
    some: tuple[NameMapping, ...], data: st.DataObject, rest: str
) -> None:
    mapped = DomainNames(some)
    inside = data.draw(st.sampled_from(some))
    pattern = inside.local.removesuffix(">") + rest if inside.whole_space else inside.local
    asked = mapped.wanted_here(pattern)
    assert [s for s in SUBJECTS if any(matches(each, s) for each in asked)] == [
        s for s in SUBJECTS if (here := mapped.entering(s)) is not None and matches(pattern, here)
    ]


@given(names, st.lists(patterns, max_size=4, unique=True))
def test_a_local_name_has_the_contract_of_the_federations_name(
    some: tuple[NameMapping, ...], matching: list[str]
) -> None:
    """Also where a wildcard of another contract reaches over it by the letters of its local name."""
    contracts = tuple(Contract(match=each, deadline_ms=at + 1.0) for at, each in enumerate(matching))
    federation = Federation(
        name="f",
        domains={"a": Domain(name="a", base_port=4000, names=some)},
        links=(),
        topics=TopicRules(contracts),
    )
    rules = local_rules(federation, "a")
    free = DomainNames([NameMapping(local=m.local, federation=m.federation) for m in some])
    for subject in SUBJECTS:
        there = free.leaving(subject)
        if there is not None:
            wanted = federation.topics.contract_of(there)
            assert rules.contract_of(subject).deadline_ms == wanted.deadline_ms


@given(patterns)
def test_without_mappings_nothing_is_renamed(pattern: str) -> None:
    mapped = DomainNames(())
    assert mapped.wanted_here(pattern) == mapped.wanted_elsewhere(pattern) == (pattern,)


@given(names)
def test_copies_are_renamed_behind_their_prefix_and_inboxes_are_not(some: tuple[NameMapping, ...]) -> None:
    mapped = DomainNames(some)
    for subject in SUBJECTS[:30]:
        there = mapped.leaving(subject)
        copy = mapped.leaving(f"_MGR._MIRROR.{subject}")
        assert copy == (None if there is None else f"_MGR._MIRROR.{there}")
        assert mapped.leaving(f"_INBOX.{subject}") == f"_INBOX.{subject}"


@given(st.lists(mappings, min_size=2, max_size=3).map(tuple))
def test_overlaps_are_found(some: tuple[NameMapping, ...]) -> None:
    """Whatever is not refused is one to one; whatever is refused for an overlap would not be."""
    problems = mapping_problems(some)
    overlaps = [each for each in problems if "overlaps" in each.found]
    for each in overlaps:
        texts = [m.local if each.key == "local" else m.federation for m in some]
        mine = texts.pop(each.position)
        both = [f"{mine[:-1]}x" if mine.endswith(">") else mine]
        assert any(covers(other, both[0]) or covers(mine, other.replace(">", "x")) for other in texts)
