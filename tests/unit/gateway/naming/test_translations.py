"""What is asked for under names that change: counted, and taken back by the names of its time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mangrove.gateway.naming.translations import Translations

NEAR = st.sampled_from("abcdef")
NAMES = st.dictionaries(NEAR, st.sets(st.integers(0, 5), max_size=3).map(lambda found: tuple(sorted(found))))


class ChangingNames(RuleBasedStateMachine):
    """The far side is what is told of it: `on` follows what begins and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, tuple[int, ...]] = {}
        self.translations: Translations[str, int] = Translations(lambda near: self.names.get(near, ()))
        self.asked: dict[str, tuple[int, ...]] = {}
        self.on: set[int] = set()

    @rule(near=NEAR)
    def add(self, near: str) -> None:
        far, new = self.translations.add(near)
        self.asked.setdefault(near, self.names.get(near, ()))
        assert far == self.asked[near]
        assert not self.on & set(new), "nobody asks twice"
        self.on |= set(new)

    @rule(near=NEAR)
    def remove(self, near: str) -> None:
        known = near in self.translations
        over = self.translations.remove(near)
        if known:
            assert set(over) <= self.on, "nobody gives up what was not asked for"
        self.asked.pop(near, None)
        self.on -= set(over)

    @rule(names=NAMES)
    def other_names(self, names: dict[str, tuple[int, ...]]) -> None:
        self.names = names

    @rule(some=st.sets(NEAR))
    def anew(self, some: set[str]) -> None:
        begun, over = self.translations.anew(some)
        assert not self.on & set(begun)
        assert set(over) <= self.on
        self.on = (self.on | set(begun)) - set(over)
        for near in some & self.asked.keys():
            self.asked[near] = self.names.get(near, ())

    @invariant()
    def all_that_is_asked_for_is_there_and_nothing_else(self) -> None:
        assert self.on == {far for each in self.asked.values() for far in each}
        assert sorted(self.translations.all()) == sorted(self.asked)


TestChangingNames = ChangingNames.TestCase


@given(before=NAMES, after=NAMES)
def test_what_keeps_its_name_is_never_given_up(
    before: dict[str, tuple[int, ...]], after: dict[str, tuple[int, ...]]
) -> None:
    names = before
    translations: Translations[str, int] = Translations(lambda near: names.get(near, ()))
    for near in "abcdef":
        translations.add(near)
    names = after
    kept = {far for near in "abcdef" for far in set(before.get(near, ())) & set(after.get(near, ()))}
    for near in "abcdef":  # a part at a time
        begun, over = translations.anew([near])
        assert not kept & {*begun, *over}
