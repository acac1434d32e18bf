"""Who has most gives way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.overlay.delivery.kept_flows import FlowKey, KeptFlows

KEYS = st.tuples(st.integers(0, 4), st.just(1), st.integers(1, 6))


@given(st.integers(1, 8), st.lists(KEYS, max_size=80))
def test_of_an_origin_that_has_most_the_flow_used_longest_ago_is_forgotten(
    most: int, used: list[FlowKey]
) -> None:
    kept: KeptFlows[FlowKey] = KeptFlows(most)
    expected: list[FlowKey] = []
    for key in used:
        known = key in expected
        assert kept.get(key) == kept.use(key) == (key if known else None)
        if known:
            expected.remove(key)
        expected.append(key)
        forgotten = None if known else kept.add(key, key)
        assert (forgotten is not None) == (len(expected) > most)
        if forgotten is not None:
            having = [each[0] for each in expected]
            assert having.count(forgotten[0]) == max(map(having.count, having))
            assert forgotten == next(each for each in expected if each[0] == forgotten[0])
            assert forgotten != key, "what is new is wanted"
            expected.remove(forgotten)
        assert dict(kept.items()) == {each: each for each in expected}


def test_an_origin_that_makes_flows_without_end_pushes_out_its_own() -> None:
    kept: KeptFlows[str] = KeptFlows(100)
    for number in range(40):
        assert kept.add((1, 1, number), "honest") is None
    assert {kept.add((2, 1, number), "hostile") for number in range(60)} == {None}
    assert {kept.add((2, 1, number), "hostile") for number in range(60, 10_000)} == {"hostile"}
    assert {kept.add((3, 1, number), "late") for number in range(20)} == {"hostile"}, "one's share is free"
