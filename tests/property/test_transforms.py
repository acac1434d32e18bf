"""Documents survive the change of their format; messages survive being taken apart and written again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mangrove.gateway.mediation.job import Job, Named, dead_letter, split, written
from mangrove.mediation.transformation import UnfitMessageError, made
from mangrove.model.mediation.transform import Format, Transform
from mangrove.overlay.protocol.bodies import Message, parse_message_line

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)
HEADS = st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nMangrove-Id: x\r\nA: b\r\n\r\n"])


@given(DOCUMENTS)
def test_there_and_back(document: Any) -> None:
    there = made(Transform(encode=Format.MSGPACK))(json.dumps(document).encode(), "s", {})
    assert there is not None
    assert msgspec.msgpack.decode(there) == document
    back = made(Transform(decode=Format.MSGPACK, encode=Format.JSON))(there, "s", {})
    assert back is not None
    assert json.loads(back) == document


@given(
    st.binary(max_size=200),
    st.sampled_from(
        [
            Transform(encode=Format.MSGPACK),
            Transform(decode=Format.MSGPACK, encode=Format.JSON),
            Transform(keep="a > `1`", pick=("a",), rename={"a": "b"}),
            Transform(
                stylesheet='<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"/>'
            ),
        ]
    ),
)
def test_whatever_comes_is_transformed_left_out_or_unfit(payload: bytes, transform: Transform) -> None:
    try:
        result = made(transform)(payload, "s", {})
    except UnfitMessageError:
        return
    assert result is None or isinstance(result, bytes)


@given(
    HEADS,
    st.lists(st.binary(min_size=7, max_size=7), min_size=1, max_size=5),
    st.sampled_from(["", "_MGR.a._INBOX.1"]),
    st.sampled_from([(), ("g",), ("g", "h")]),
)
def test_runs_are_taken_apart_and_written_again(
    head: bytes, payloads: list[bytes], reply: str, groups: tuple[str, ...]
) -> None:
    message = Message("x.1", reply, len(head) if head else -1, len(head) + 7, groups)
    line = message.line("x.1", reply, groups)
    run = b"".join(b"%b\r\n%b%b\r\n" % (line, head, each) for each in payloads)
    jobs = split(run, len(line), message, "b", None)
    assert b"".join(written(job.message, job.head, job.payload) for job in jobs) == run


@given(HEADS, st.binary(max_size=400), st.text(max_size=50), st.integers(300, 600))
def test_a_dead_letter_is_one_message_within_its_bound(
    head: bytes, payload: bytes, reason: str, bound: int
) -> None:
    """Nothing in a reason can smuggle a line."""
    job = Job(
        Message("x.1", "", len(head) if head else -1, len(head) + len(payload)),
        *("b", head, payload, Named("t", None)),
    )
    line, _, rest = dead_letter(job, reason, (), bound).partition(b"\r\n")
    message = parse_message_line(line)
    assert len(rest) == message.size_bytes + 2 <= bound + 2
    assert rest[: message.header_bytes].count(b"\r\n\r\n") == 1
    assert rest[: message.header_bytes].endswith(b"\r\n\r\n")
