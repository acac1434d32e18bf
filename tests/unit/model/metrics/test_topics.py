"""Few topics are told apart; nothing that is counted ever shrinks, and nothing is counted twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.metrics.families import OTHER, Families
from mangrove.model.metrics.topics import ToldApart, TopicMetrics
from mangrove.model.topic_counts import TopicTally, TopicTotals

growth = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 1000), max_size=6)


@given(st.lists(st.tuples(growth, st.integers(0, 5)), max_size=25))
@settings(max_examples=150)
def test_every_series_only_grows(steps: list[tuple[dict[str, int], int]]) -> None:
    apart = ToldApart(max_topics=2)
    counts: dict[str, int] = {}
    other = 0
    before: dict[str, int] = {}
    for grown, unnamed in steps:
        other += unnamed
        for topic, more in grown.items():
            counts[topic] = counts.get(topic, 0) + more
        tally = TopicTally(topics=dict(counts), other=other)
        found = apart.counts(tally)
        assert len(found) <= 3
        assert all(count >= 0 for count in found.values())
        assert all(found[topic] >= before[topic] for topic in found.keys() & before.keys())
        assert sum(found.values()) <= tally.total
        before = found


def test_the_sum_of_all_series_is_exact_while_nobody_gives_up_a_place() -> None:
    apart = ToldApart(max_topics=2)
    first = apart.counts(TopicTally(topics={"a": 5, "b": 3, "c": 1}))
    assert first == {"a": 0, "b": 0, OTHER: 9}
    second = apart.counts(TopicTally(topics={"a": 15, "b": 5, "c": 2}, requests=4))
    assert second == {"a": 10, "b": 2, OTHER: 14}


def test_a_much_busier_topic_gets_a_place() -> None:
    apart = ToldApart(max_topics=1)
    apart.counts(TopicTally(topics={"a": 5, "b": 1}))
    found = apart.counts(TopicTally(topics={"a": 6, "b": 101}))
    assert found == {"b": 0, OTHER: 106}
    assert apart.counts(TopicTally(topics={"a": 7, "b": 151})) == {"b": 50, OTHER: 107}


def test_a_new_life_of_the_gateway_begins_anew() -> None:
    metrics = TopicMetrics()
    for epoch, count in ((1, 7), (1, 9), (2, 3)):
        families = Families()
        totals = TopicTotals(domain="here", epoch=epoch, uptime_s=1.0, sent=TopicTally(topics={"a": count}))
        metrics.put(families, totals)
        values = {sample.labels: sample.value for metric, samples in families for sample in samples}
    assert values["here", "a"] == 0
    assert ("here", OTHER) in values
