"""Whatever is counted and whoever asks when: each reader's answers add up to all that was counted."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mangrove.gateway.count_history import CountHistory
from mangrove.gateway.tally import Tally
from mangrove.model.topic_counts import CountCursor

TOPICS = st.sampled_from([f"t{number}" for number in range(12)])
COUNTED = st.tuples(TOPICS | st.just(""), st.integers(1, 50))  # without a topic: requests
READERS = 3
STEPS = st.lists(
    st.tuples(st.just("count"), COUNTED)
    | st.tuples(st.just("ask"), st.tuples(st.integers(0, READERS - 1), st.booleans())),
    max_size=60,
)


@given(STEPS, st.integers(2, 8), st.integers(1, 4), st.integers(4, 20), st.integers(0, 400))
def test_deltas_and_remainder_add_up_for_every_reader(
    steps: list[tuple[str, tuple[str, int] | tuple[int, bool]]],
    max_topics: int,
    max_intervals: int,
    max_kept: int,
    budget_bytes: int,
) -> None:
    history = CountHistory(
        "a", 1, max_topics=max_topics, max_intervals=max_intervals, max_kept_topics=max_kept
    )
    cursors: list[CountCursor] = [CountCursor(epoch=1)] * READERS
    booked = [0] * READERS
    by_topic: list[Counter[str]] = [Counter() for _ in range(READERS)]
    truth: Counter[str] = Counter()
    requests = 0

    def ask(reader: int, lost: bool) -> None:
        answer = history.since(cursors[reader], 1.0, budget_bytes=budget_bytes)
        assert answer.sent.other >= 0
        assert min(answer.sent.topics.values(), default=1) > 0
        if not lost:
            cursors[reader] = answer.cursor
            booked[reader] += answer.sent.total
            by_topic[reader].update(answer.sent.topics)

    for kind, (first, second) in steps:
        if kind == "ask":
            ask(int(first), bool(second))
        elif first:
            history.current.sent.add(str(first), int(second))
            truth[str(first)] += int(second)
        else:
            history.current.sent.requests += int(second)
            requests += int(second)
    for reader in range(READERS):
        ask(reader, False)
        assert booked[reader] == truth.total() + requests
        assert all(count <= truth[topic] for topic, count in by_topic[reader].items()), "no topic gains any"
    assert history.totals.sent.total == truth.total() + requests


@given(st.lists(COUNTED, max_size=40), st.lists(COUNTED, max_size=40), st.integers(2, 30))
def test_merging_tallies_keeps_the_sum_and_the_bound(
    first: list[tuple[str, int]], second: list[tuple[str, int]], max_topics: int
) -> None:
    tallies = []
    for counted in (first, second):
        tally = Tally(max_topics)
        for topic, count in counted:
            tally.add(topic, count)
        assert tally.total == sum(count for _, count in counted)
        tallies.append(tally)
    tallies[0].merge(tallies[1])
    assert tallies[0].total == sum(count for _, count in first + second)
    assert len(tallies[0]) <= max_topics
