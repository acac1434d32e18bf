"""Publishers are told apart by the ids in heads, in runs of messages as in single ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.broker.message_ids import common_origin, origin_and_count, origin_at

ORIGINS = ("alice-alice-", "alice-alicf-", "blice-alice-")


def head_of(origin: str) -> bytes:
    if not origin:
        return b"NATS/1.0\r\nMangrove-Jd: %b.%011x\r\n\r\n" % (b"x" * 12, 1)
    return f"NATS/1.0\r\nMangrove-Id: {origin}.{1:011x}\r\n\r\n".encode()


@given(st.lists(st.sampled_from((*ORIGINS, "")), min_size=1, max_size=40), st.binary(max_size=5))
def test_a_run_has_one_publisher_if_all_its_messages_have(origins: list[str], line: bytes) -> None:
    messages = [line + head_of(origin) + b"\r\n" for origin in origins]
    run, length = b"".join(messages), len(messages[0])
    found = common_origin(run, len(line), length, len(messages))
    assert found == (origins[0].encode() if len(set(origins)) == 1 and origins[0] else None)
    assert [origin_at(run, place) for place in range(len(line), len(run), length)] == [
        origin.encode() for origin in origins
    ]


def test_an_origin_is_what_the_whole_id_says() -> None:
    head = head_of(ORIGINS[0])
    assert origin_and_count(head) == (origin_at(head, 0), 1)
    assert origin_at(b"NATS/1.0\r\nMangrove-Id: short\r\n\r\n", 0) == b""
