"""What changed, applied to what was, is what is; anything else is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.stream.difference import SAME, UnfitChangeError, applied, difference

scalars = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, 1.0, 2.5]) | st.text(max_size=2)
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)


def over_the_wire(change: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(change), strict=False)


@given(trees, trees)
@settings(max_examples=150)
def test_nothing_is_lost_on_the_way(before: Any, after: Any) -> None:
    found = applied(before, over_the_wire(difference(before, after)))
    assert msgspec.json.encode(found, order="sorted") == msgspec.json.encode(after, order="sorted")


@given(trees)
def test_what_is_the_same_costs_nothing(tree: Any) -> None:
    assert difference(tree, tree) == SAME


def test_one_row_of_many_is_told_alone() -> None:
    before = [{"peer": str(n), "rtt_ms": 1.0} for n in range(100)]
    after = [*before]
    after[7] = {"peer": "7", "rtt_ms": 2.0}
    assert difference(before, after) == [2, 100, {7: [1, {"rtt_ms": [0, 2.0]}, []]}, []]


@pytest.mark.parametrize(
    "change",
    [
        [1, {}],
        [3],
        ["x"],
        [1, {"a": [2, 1, {}, []]}, []],
        [2, 5, {}, []],
        [2, 1, {9: [0, 1]}, []],
        7,
        None,
        {},
    ],
)
def test_what_does_not_fit_is_refused(change: Any) -> None:
    with pytest.raises(UnfitChangeError):
        applied([1] if isinstance(change, list) and change[0] == 2 else {"a": 1}, change)


def test_a_change_without_end_is_refused() -> None:
    change: list[Any] = [0, 1]
    tree: dict[str, Any] = {}
    for _ in range(100):
        change, tree = [1, {"a": change}, []], {"a": tree}
    with pytest.raises(UnfitChangeError):
        applied(tree, change)
