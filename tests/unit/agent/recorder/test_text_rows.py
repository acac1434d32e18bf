"""Words of messages in the lake: only where a contract allows it, few, short, without digits, in turn."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.agent.recorder.counters import Counters
from mangrove.agent.recorder.omissions import Omissions
from mangrove.agent.recorder.rows import Second
from mangrove.agent.recorder.text_rows import MAX_WORD_BYTES, TEXTS_A_SECOND, TextRows, sampled_words
from mangrove.broker.nats.tap import Slice, TextSample
from mangrove.model.status import DomainStatus
from mangrove.model.topics import Contract, TopicRules


def second(texts: dict[str, TextSample], omissions: Omissions) -> Second:
    return Second(
        ts=datetime(2026, 3, 2, tzinfo=UTC),
        domain="a",
        rules=TopicRules(),
        counters=Counters(),
        status=DomainStatus(domain="a", brokers=(), gateway=None),
        subscriptions={},
        seen=Slice(1.0, {}, texts),
        counts=None,
        omissions=omissions,
    )


def test_nothing_is_sampled_unless_a_contract_says_so_and_is_not_confidential() -> None:
    rules = TopicRules(
        (
            Contract(match="secret.>", sample_text=True, confidential=True),
            Contract(match="alert.>", sample_text=True),
            Contract(match="plant.>"),
            Contract(match=">", sample_text=True),
        )
    )
    allowed = {
        topic
        for topic in ("secret.a", "alert.a", "plant.a", "_INBOX.x", "$SYS.x")
        if rules.may_sample_text(topic)
    }
    assert allowed == {"alert.a"}
    assert not TopicRules().may_sample_text("alert.a")


def test_keywords_come_first_and_words_with_digits_are_left_out() -> None:
    text = TextSample(b" Dam, Water Level", "Flood at gauge 7a: call 555-0100, Überlauf!".encode(), cut=False)
    assert sampled_words(text) == "dam,water level,flood,at,gauge,call,überlauf"
    assert sampled_words(TextSample(b"", b"\xff\xfe\x00", cut=False)) == ""
    assert sampled_words(TextSample(b"", b"one two thr", cut=True)) == "one,two", "the last is half a word"


@settings(max_examples=60, deadline=None)
@given(keywords=st.binary(max_size=300), body=st.one_of(st.binary(max_size=3000), st.text().map(str.encode)))
def test_whatever_comes_a_row_is_bounded(keywords: bytes, body: bytes) -> None:
    found = sampled_words(TextSample(keywords, body, cut=False))
    assert len(found.encode()) < MAX_WORD_BYTES
    assert not any(letter.isdigit() for letter in found)


def test_topics_take_turns_and_what_is_left_out_is_counted() -> None:
    rows, omissions = TextRows(), Omissions()
    texts = {f"t.{number:02d}": TextSample(b"", b"some words", cut=False) for number in range(20)}
    told = [[row["topic"] for row in rows.rows(second(texts, omissions))] for _ in range(3)]
    assert [len(topics) for topics in told] == [TEXTS_A_SECOND] * 3
    assert {topic for topics in told for topic in topics} == texts.keys()
    assert omissions.tell(0.0, at_once=True) == "36 texts of topics whose turn it was not"
