"""A pattern is mirrored as strictly as anything that falls under it."""

from __future__ import annotations

import pytest

from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.mirrors.modes import contracted_modes, told_modes
from mangrove.model.topics import Contract, Mirror, TopicRules

RULES = TopicRules(
    (
        Contract(match="alert.test.>"),
        Contract(match="alert.>", mirror=Mirror.BOTH),
        Contract(match="meter.*.now", mirror=Mirror.STANDBY),
        Contract(match="plant.>"),
    )
)


@pytest.mark.parametrize(
    ("topic", "mode"),
    [
        ("alert.fire", Mirror.BOTH),
        ("alert.test.a", Mirror.NONE),
        ("alert.test.>", Mirror.NONE),
        ("alert.*.a", Mirror.BOTH),
        ("meter.7.now", Mirror.STANDBY),
        ("meter.>", Mirror.STANDBY),
        ("*.*.now", Mirror.BOTH),
        (">", Mirror.BOTH),
        ("plant.a", Mirror.NONE),
        ("other", Mirror.NONE),
    ],
)
def test_the_strictest_of_what_falls_under_a_topic(topic: str, mode: Mirror) -> None:
    assert contracted_modes(RULES).of(topic) is mode
    assert told_modes(RULES.terms()).of(topic) is mode


def test_without_contracts_that_ask_nothing_is_looked_at() -> None:
    modes = contracted_modes(TopicRules((Contract(match=">"),)))
    assert not modes
    assert modes.of("a") is Mirror.NONE


def test_a_mode_of_a_later_version_is_none() -> None:
    assert told_modes([TopicTerms(match="a", mirror="triple")]).of("a") is Mirror.NONE
