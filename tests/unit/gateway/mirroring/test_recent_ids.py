"""Of several copies of a message the first passes: by whole runs as message by message."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.attachments import identified, message

from mangrove.broker.message_ids import ID_START
from mangrove.gateway.mirroring.recent_ids import RecentIds
from mangrove.gateway.mirroring.unrepeated import Unrepeated
from mangrove.overlay.protocol.bodies import Gathered, Message, parse_message_line

HERE = ("t", ())


def copy(origin: str, count: int, payload: bytes = b"x") -> bytes:
    """A message as an SDK writes it."""
    return identified("t", origin, payload).replace(b".%011x" % 1, b".%011x" % count)


def flow(line: bytes, ids: RecentIds, into: Gathered, copies: Gathered | None = None) -> Unrepeated:
    return Unrepeated(line, parse_message_line(line), HERE, ids, into, copies=copies)


def line_of(messages: bytes) -> bytes:
    return messages[: messages.index(b"\r\n")]


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(1, 60), st.integers(1, 3), st.floats(0, 0.6))
def test_of_arbitrarily_interleaved_copies_each_message_passes_once(
    rng: random.Random, count: int, planes: int, loss: float
) -> None:
    published = [copy("publisher001", number) for number in range(count)]
    ids, out = RecentIds(), Gathered()
    ways = [flow(line_of(published[0]), ids, out) for _ in range(planes)]
    on_the_way = [[each for each in published if rng.random() >= loss] for _ in range(planes)]
    expected = {each for way in on_the_way for each in way}
    while any(on_the_way):
        plane = rng.choice([index for index, rest in enumerate(on_the_way) if rest])
        run = [on_the_way[plane].pop(0) for _ in range(min(rng.randint(1, 9), len(on_the_way[plane])))]
        ways[plane].take(b"".join(run))
    passed, length = b"".join(out.messages), len(published[0])
    got = [passed[start : start + length] for start in range(0, len(passed), length)]
    assert len(got) == len(set(got))
    assert set(got) == expected
    if not loss:
        assert got == published, "in order, where no way loses anything"


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["sdk", "other", "none"])), max_size=40))
def test_whole_runs_pass_as_single_messages_do(said: list[tuple[int, str]]) -> None:
    """Heads of any make, equally long: by an SDK, with an id elsewhere in the head, without one."""
    messages = [_made(number, make) for number, make in said]
    if not messages:
        return
    line = line_of(messages[0])
    assert all(line_of(each) == line for each in messages)
    whole, single = Gathered(), Gathered()
    whole_copies, single_copies = Gathered(), Gathered()
    flow(line, RecentIds(), whole, whole_copies).take(b"".join(messages))
    one_by_one = flow(line, RecentIds(), single, single_copies)
    for each in messages:
        one_by_one.take(each)
    assert b"".join(whole.messages) == b"".join(single.messages)
    assert b"".join(whole_copies.messages) == b"".join(single_copies.messages)
    anonymous = [each for each, (_, make) in zip(messages, said, strict=True) if make == "none"]
    passed = b"".join(single.messages)
    assert all(each in passed for each in anonymous), "what has no id always passes"
    assert not any(each in b"".join(single_copies.messages) for each in anonymous), "and has no copy"


def _made(number: int, make: str) -> bytes:
    heads = {
        "sdk": b"NATS/1.0\r\nMangrove-Id: publisher001.%011x\r\nA: %012d\r\n\r\n" % (number, 0),
        "other": b"NATS/1.0\r\nA: %012d\r\nMangrove-Id: publisher001.%011x\r\n\r\n" % (0, number),
        "none": b"NATS/1.0\r\nSomething-x: publisher001.%011x\r\nA: %012d\r\n\r\n" % (number, 0),
    }
    head = heads[make]
    line = Message("t", "", len(head), len(head) + 1).line("t", "")
    return b"%b\r\n%bx\r\n" % (line, head)


def test_ids_of_other_make_that_begin_alike_are_different() -> None:
    long_ids = [b"NATS/1.0\r\nMangrove-Id: publisher001.%011x-%d\r\n\r\n" % (1, part) for part in (1, 2)]
    line = Message("t", "", len(long_ids[0]), len(long_ids[0])).line("t", "")
    ids, out = RecentIds(), Gathered()
    way = flow(line, ids, out)
    for head in long_ids:
        way.take(b"%b\r\n%b\r\n" % (line, head))
    assert len(out.messages) == 2


def test_an_id_passes_again_on_another_subject_and_for_other_groups() -> None:
    ids, out = RecentIds(), Gathered()
    first = copy("publisher001", 1)
    line = line_of(first)
    parsed = parse_message_line(line)
    for kind in (("t", ()), ("u", ()), ("t", ("workers",)), ("t", ())):
        Unrepeated(line, parsed, kind, ids, out).take(first)
    assert len(out.messages) == 3
    assert ids.repeated == 1


def test_memory_is_bounded_and_every_id_is_known_for_a_generation() -> None:
    ids, out = RecentIds(generation_ids=100), Gathered()
    run = [copy("publisher001", number) for number in range(1000)]
    way = flow(line_of(run[0]), ids, out)
    for number, each in enumerate(run):
        way.take(each)
        way.take(run[max(0, number - 99)])
    assert len(out.messages) == 1000
    known = ids.of(HERE)
    assert len(known._younger) + len(known._older) <= 200


def test_a_subject_that_was_silent_for_long_is_forgotten_and_begins_anew() -> None:
    ids, out = RecentIds(), Gathered()
    first = copy("publisher001", 1)
    ways = [flow(line_of(first), ids, out) for _ in "ab"]
    ways[0].take(first)
    for _ in range(3):
        ids.age(float("inf"))
    assert not ids._kinds
    for way in ways:
        way.take(copy("publisher001", 2))
    assert len(out.messages) == 2, "both ways have found the same new place"


def test_messages_without_headers_are_not_looked_into() -> None:
    ids, out = RecentIds(), Gathered()
    plain = message("t", ID_START)
    way = flow(line_of(plain), ids, out)
    way.take(plain * 3)
    assert b"".join(out.messages) == plain * 3
