"""Which domains get only what their subscribers select, and which get everything."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.kit.engines import federation, learn, with_links

from mangrove.model.selectors import group_names
from mangrove.model.selectors.group_names import selecting_group
from mangrove.model.selectors.selector import Selector
from mangrove.model.topics import Contract, Mirror, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.flows import MAX_SELECTORS
from mangrove.overlay.protocol.control_messages import InterestUpdate, control_frame

STAR = federation(("a", "b"), ("a", "c"), ("a", "d"))


def selecting(domain: str, subject: str, where: str) -> str:
    return f"{subject} {selecting_group(domain, Selector(where))}"


def told(engine: OverlayEngine, subject: str) -> list[tuple[int, tuple[str, ...], list[str]]]:
    return [
        (route.flow.destinations, route.groups, [each.text for each in route.selectors])
        for route in engine.route(subject)
    ]


def changed(
    engine: OverlayEngine, domain: str, *added: list[str], removed: Sequence[str] = (), after: int = 0
) -> None:
    """A domain wants more, or less, than in `after` words of it before."""
    for version, some in enumerate(added, after + 1):
        update = InterestUpdate(
            origin=domain, epoch=1, version=version, snapshot=version == 1, added=some, removed=list(removed)
        )
        engine.receive(domain, control_frame(update), 1.0)
        while engine.timer() <= 1.0:
            engine.handle_timer(1.0)  # much is taken in by and by


def test_domains_that_select_the_same_share_a_flow_apart_from_those_that_get_everything() -> None:
    source = with_links(STAR, "a")
    learn(source, "b", [selecting("b", "x.>", "n>1"), selecting("b", "x.1", "n > 5")], "b")
    learn(source, "c", [selecting("c", "x.*", "n > 1")], "c")
    learn(source, "d", ["x.2"], "d")
    assert told(source, "x.1") == [(0b0010, (), ["n > 1", "n > 5"]), (0b0100, (), ["n > 1"])]
    assert told(source, "x.2") == [(0b1000, (), []), (0b0110, (), ["n > 1"])]
    assert source.wanted_elsewhere() == ["x.>", "x.1", "x.*", "x.2"]
    assert not source.is_unwanted("x.9.9")


def test_one_subscriber_that_does_not_select_is_enough() -> None:
    source = with_links(STAR, "a")
    learn(source, "b", [selecting("b", "x", "n > 1"), "*"], "b")
    learn(source, "c", [selecting("c", "x", "n > 1"), "x workers"], "c")
    learn(source, "d", [selecting("d", "x", "n > 1"), "> workers"], "d")
    assert told(source, "x") == [(0b1010, (), []), (0b0100, ("workers",), [])]


def test_a_member_at_home_serves_its_group_and_selectors_are_no_groups() -> None:
    source = with_links(STAR, "a")
    group = selecting_group("a", Selector("n > 1"))
    assert source.change_local_interest("x", group, True)
    assert source.queue_groups("x") == ()
    assert not source.is_unwanted("x")


@pytest.mark.parametrize("mirror", [Mirror.BOTH, Mirror.STANDBY])
def test_of_mirrored_topics_everything_is_sent(mirror: Mirror) -> None:
    rules = TopicRules((Contract(match="x", mirror=mirror),))
    source = with_links(federation(("a", "b"), topics=rules), "a")
    learn(source, "b", [selecting("b", ">", "n > 1")], "b")
    assert told(source, "x") == [(0b10, (), [])]
    assert told(source, "y") == [(0b10, (), ["n > 1"])]


def test_who_selects_in_too_many_ways_gets_everything() -> None:
    source = with_links(STAR, "a")
    wants = [selecting("b", "x", f"n = {number}") for number in range(MAX_SELECTORS + 1)]
    learn(source, "b", wants, "b")
    assert told(source, "x") == [(0b0010, (), [])]


def test_of_very_many_selectors_few_are_read_again() -> None:
    """More than are remembered: else each new subject, and each subscriber that comes, stops the gateway."""
    many = group_names.MAX_REMEMBERED
    source = with_links(STAR, "a")
    for domain in ("b", "c"):
        wants = [selecting(domain, "x.>", f"user = 'u{number}'") for number in range(many)]
        changed(source, domain, *(wants[start : start + 500] for start in range(0, many, 500)))
    for number in range(many):
        source.change_local_interest("x.>", selecting_group("a", Selector(f"user = 'u{number}'")), True)
    before = group_names._decoded.cache_info().misses
    for number in range(5):
        assert told(source, f"x.{number}") == [(0b0110, (), [])]
        assert source.queue_groups(f"x.{number}") == ()
        assert not source.is_unwanted(f"x.{number}")
    assert group_names._decoded.cache_info().misses - before <= 5 * 2 * (MAX_SELECTORS + 1)


def test_who_selected_leaves_nothing_behind() -> None:
    source = with_links(STAR, "a")
    first, second, group = selecting("b", "x", "n > 1"), selecting("b", "x", "n > 2"), "x workers"
    changed(source, "b", [first, second, group])
    assert told(source, "x") == [(0b0010, ("workers",), [])]
    changed(source, "b", [], removed=[group], after=1)
    assert told(source, "x") == [(0b0010, (), ["n > 1", "n > 2"])]
    changed(source, "b", [], removed=[first], after=2)
    assert told(source, "x") == [(0b0010, (), ["n > 2"])]
    changed(source, "b", [], removed=[second], after=3)
    assert told(source, "x") == []
    assert source.wanted_elsewhere() == []


def test_a_group_that_only_looks_like_a_selector_is_a_group() -> None:
    source = with_links(STAR, "a")
    learn(source, "b", ["x _MGW.b.n>1"], "b")
    assert told(source, "x") == [(0b0010, ("_MGW.b.n>1",), [])]
