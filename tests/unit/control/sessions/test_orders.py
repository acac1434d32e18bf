"""Which wishes of a session still wait, whatever comes and goes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mangrove.control.sessions.orders import OrderBook

WISHES = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))


@given(st.lists(st.tuples(WISHES, st.sampled_from(["", "t.1", "t.2"]))))
def test_as_many_wait_of_a_topic_as_were_added_and_not_dropped(
    steps: list[tuple[tuple[str, str], str]],
) -> None:
    """A step without a topic drops the wish; one that is in the book stays as it is."""
    book = OrderBook()
    topics: dict[tuple[str, str], str] = {}
    for wish, topic in steps:
        if topic:
            assert book.add(wish, topic) == (wish not in topics)
            topics.setdefault(wish, topic)
        else:
            assert book.drop(wish) == topics.pop(wish, None)
        waiting = Counter(topics.values())
        assert [book.waiting(each) for each in ("t.1", "t.2")] == [waiting["t.1"], waiting["t.2"]]


class Topic(str):
    """A topic that counts how often it is looked at."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        Topic.looks += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_to_ask_for_one_topic_takes_no_look_at_the_others() -> None:
    book = OrderBook()
    for number in range(1_000):
        book.add((f"c{number}", "k"), Topic(f"t.{number}"))
    Topic.looks = 0
    assert book.waiting("t.7") == 1
    assert Topic.looks < 10
