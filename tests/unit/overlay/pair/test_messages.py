"""What two gateways of a domain say to each other, as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.overlay.pair.messages import (
    NAMES_PER_RECORD,
    Beat,
    Ending,
    Figures,
    PairGoodbye,
    PairHello,
    RecordKind,
    RecordReader,
    Role,
    names_records,
    read_names,
    read_word,
    record,
    word_record,
)
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind
from mangrove.overlay.protocol.frames import FrameError, Name

NAMES = st.builds(Name, *(st.integers(0, (1 << bits) - 1) for bits in (16, 64, 32, 64)))
WORDS = (
    PairHello(federation="f", topology="t", domain="d", number=2),
    Beat(
        role=Role.ACTIVE,
        epoch=7,
        heartbeat=Heartbeat(kind=HeartbeatKind.REGULAR, sequence=1, sent=1.5, received=0),
        figures=Figures(sent=3, delivered=4, leaves_s=1.0),
    ),
    PairGoodbye(ending=Ending.STOPS),
)


@given(st.lists(NAMES, max_size=50), st.integers(1, 60))
def test_names_come_back_however_the_bytes_are_cut(names: list[Name], step: int) -> None:
    data = names_records(names)
    reader = RecordReader()
    records = [
        each for start in range(0, len(data), step) for each in reader.feed(data[start : start + step])
    ]
    assert all(kind is RecordKind.NAMES for kind, _ in records)
    assert [name for _, body in records for name in read_names(body)] == names


def test_many_names_take_several_records() -> None:
    names = [Name(1, 2, 3, number) for number in range(2 * NAMES_PER_RECORD + 1)]
    records = RecordReader().feed(names_records(names))
    assert len(records) == 3
    assert [name for _, body in records for name in read_names(body)] == names


@pytest.mark.parametrize("word", WORDS)
def test_words_come_back(word: PairHello | Beat | PairGoodbye) -> None:
    ((kind, body),) = RecordReader().feed(word_record(word))
    assert read_word(kind, body) == word


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n", b"\xff" * 8, record(RecordKind.BEAT, b"")[:4] + b"\x63"],
    ids=["another protocol", "too long", "unknown kind"],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        RecordReader().feed(data)


@pytest.mark.parametrize("kind", [RecordKind.HELLO, RecordKind.BEAT, RecordKind.GOODBYE])
@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", b"nonsense"])
def test_malformed_words_are_refused(kind: RecordKind, body: bytes) -> None:
    with pytest.raises(FrameError):
        read_word(kind, body)


def test_names_that_are_cut_off_are_refused() -> None:
    with pytest.raises(FrameError):
        read_names(b"x" * 23)
