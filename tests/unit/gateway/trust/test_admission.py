"""Places for connections that have not proven who they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.gateway.trust.admission import (
    HANDSHAKES_AT_ONCE,
    MAX_OF_NEIGHBOUR,
    MAX_OF_STRANGER,
    MAX_STRANGERS,
    Admission,
    place_of,
)

NEIGHBOUR = "10.0.0.1"


def test_a_stranger_with_thousands_of_connections_holds_few_places() -> None:
    admission: Admission[int] = Admission((NEIGHBOUR,))
    displaced = [admission.enter(number, "192.0.2.7") for number in range(5000)]
    assert len(admission) == MAX_OF_STRANGER
    assert displaced[:MAX_OF_STRANGER] == [None] * MAX_OF_STRANGER
    assert displaced[MAX_OF_STRANGER:] == list(range(5000 - MAX_OF_STRANGER)), "the oldest gives way"


def test_strangers_at_many_addresses_take_no_place_of_a_neighbour() -> None:
    admission: Admission[int] = Admission((NEIGHBOUR,))
    assert admission.enter(-1, NEIGHBOUR) is None
    for number in range(10_000):
        admission.enter(number, f"192.0.{number // 250}.{number % 250}")
    assert admission.strangers() == MAX_STRANGERS
    assert -1 in admission
    assert admission.enter(-2, NEIGHBOUR) is None


def test_who_shares_a_neighbours_address_and_says_nothing_gives_way_before_one_that_has_begun() -> None:
    admission: Admission[int] = Admission((NEIGHBOUR,))
    admission.enter(-1, NEIGHBOUR)
    assert admission.may_begin(-1, 0.0)
    for number in range(5 * MAX_OF_NEIGHBOUR):
        admission.enter(number, NEIGHBOUR)
    assert -1 in admission


def test_handshakes_are_rationed_for_strangers_and_neighbours_apart() -> None:
    admission: Admission[int] = Admission((NEIGHBOUR,))
    begun = 0
    for number in range(int(3 * HANDSHAKES_AT_ONCE)):
        admission.enter(number, "192.0.2.7")
        begun += admission.may_begin(number, 0.0)
    assert begun == HANDSHAKES_AT_ONCE
    admission.enter(-1, NEIGHBOUR)
    assert admission.may_begin(-1, 0.0)
    admission.enter(-2, "192.0.2.8")
    assert not admission.may_begin(-2, 0.0)
    assert admission.may_begin(-2, 1.0), "later there is some again"
    assert not admission.may_begin(-3, 1.0), "who was displaced does not begin"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1:2:3:4", "2001:db8::"),
        ("fe80::1%eth0", "fe80::"),
        ("gateway.example", "gateway.example"),
    ],
)
def test_what_shares_places(address: str, place: str) -> None:
    assert place_of(address) == place


ADDRESSES = st.sampled_from([NEIGHBOUR, "10.0.0.2", *(f"192.0.2.{n}" for n in range(40))])


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["enter", "begin", "leave"]), st.integers(0, 400), ADDRESSES), max_size=400
    )
)
def test_places_are_bounded_whatever_happens(steps: list[tuple[str, int, str]]) -> None:
    admission: Admission[int] = Admission((NEIGHBOUR, "10.0.0.2"))
    inside: dict[int, str] = {}
    now = 0.0
    for what, number, address in steps:
        now += 0.01
        if what == "enter" and number not in inside:
            displaced = admission.enter(number, address)
            inside[number] = address
            if displaced is not None:
                given_way = inside.pop(displaced)
                known = {NEIGHBOUR, "10.0.0.2"}
                assert given_way == address or not {given_way, address} & known
        elif what == "begin":
            assert number in inside or not admission.may_begin(number, now)
            if number in inside:
                admission.may_begin(number, now)
        elif what == "leave":
            admission.leave(number)
            inside.pop(number, None)
        assert admission.problems() == []
        assert {each for each in inside if each in admission} == set(inside)
