"""Two ways bring the same messages: each is handed over once, and in order while one of them is complete."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.broker.message_heads import encode_head
from mangrove.client.message import Message, MessageIds, stamped
from mangrove.client.mirroring import planes
from mangrove.client.mirroring.mirrored_ids import GENERATION_S, MIN_GENERATION, MirroredIds
from mangrove.client.mirroring.planes import ANSWER_S, JOIN_S, Plane, Planes
from mangrove.client.publishing import Outcome


async def _respond(reply: str, data: bytes, headers: Mapping[str, str] | None) -> Outcome:
    return Outcome.UNWANTED


class Publisher:
    """Makes messages as the SDK does."""

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.ids = MessageIds()

    def say(self, count: int, subject: str = "t") -> list[Message]:
        return [
            Message(subject, f"{self.name} {number}".encode(), self.head(), "", _respond)
            for number in range(1, count + 1)
        ]

    def head(self) -> bytes:
        return self.ids.head_form % (self.ids.count(), 1_700_000_000_000_000_000)


def texts(messages: list[Message]) -> list[str]:
    return [message.data.decode() for message in messages]


def plain(text: str) -> Message:
    return Message("t", text.encode(), b"", "", _respond)


@settings(max_examples=200)
@given(data=st.data())
def test_a_mirror_that_joins_repeats_nothing_and_overtakes_nothing(data: st.DataObject) -> None:
    """The primary brings all; the mirror, from some message of each publisher on."""
    streams = [Publisher(name).say(data.draw(st.integers(1, 12))) for name in "ab"]
    begins = [data.draw(st.integers(0, len(stream))) for stream in streams]
    subject = Planes(one_subject=data.draw(st.booleans()))
    subject.joins(Plane.MIRROR, 0.0)
    ways = {
        Plane.PRIMARY: [list(stream) for stream in streams],
        Plane.MIRROR: [list(stream[begin:]) for stream, begin in zip(streams, begins, strict=True)],
    }
    brought = sum(len(stream) for streams in ways.values() for stream in streams)
    handed = _run(data, subject, ways)
    assert subject.ids.duplicates == brought - len(handed)
    for stream in streams:
        of_it = [each for each in handed if each[0] == texts(stream)[0][0]]
        assert of_it == texts(stream)


@settings(max_examples=200)
@given(data=st.data())
def test_a_primary_that_comes_back_ahead_of_the_mirror_waits_for_it(data: st.DataObject) -> None:
    stream = Publisher().say(data.draw(st.integers(2, 15)))
    lost_after = data.draw(st.integers(0, len(stream) - 1))
    back_at = data.draw(st.integers(lost_after, len(stream)))
    planes = Planes(one_subject=True)
    handed = planes.came(Plane.PRIMARY, stream[:lost_after], 0.0)
    handed += planes.came(Plane.MIRROR, stream[:1], 0.0)
    handed += planes.lost(Plane.PRIMARY, 0.0)
    planes.joins(Plane.PRIMARY, 0.0)
    rest = _run(data, planes, {Plane.PRIMARY: [list(stream[back_at:])], Plane.MIRROR: [list(stream[1:])]})
    assert texts(handed) + rest == texts(stream)


@settings(max_examples=200)
@given(data=st.data())
def test_a_primary_that_comes_back_waits_for_what_a_mirror_that_stood_by_will_bring(
    data: st.DataObject,
) -> None:
    """Nothing has come by the mirror so far; publishers have been asked to say again what they said last."""
    stream = Publisher().say(data.draw(st.integers(2, 15)))
    lost_after = data.draw(st.integers(0, len(stream) - 1))
    back_at = data.draw(st.integers(lost_after, len(stream)))
    window_from = data.draw(st.integers(0, lost_after))
    planes = Planes(one_subject=True)
    handed = planes.came(Plane.PRIMARY, stream[:lost_after], 0.0)
    handed += planes.lost(Plane.PRIMARY, 0.0)
    planes.joins(Plane.PRIMARY, 0.0, answers=True)
    ways = {Plane.PRIMARY: [list(stream[back_at:])], Plane.MIRROR: [list(stream[window_from:])]}
    rest = _run(data, planes, ways)
    assert texts(handed) + rest == texts(stream)


def test_of_whom_nothing_comes_by_a_mirror_that_stood_by_nobody_waits_for_long() -> None:
    answering, silent = Publisher("a").say(4), Publisher("b").say(2)
    planes = Planes(one_subject=True)
    planes.joins(Plane.PRIMARY, 0.0, answers=True)
    assert planes.came(Plane.PRIMARY, [*answering[2:], *silent], 0.0) == []
    assert texts(planes.came(Plane.MIRROR, answering[:1], 0.1)) == ["a 1"]
    assert planes.handle_timer(ANSWER_S - 0.01) == []
    assert texts(planes.handle_timer(ANSWER_S)) == ["b 1", "b 2"]
    assert texts(planes.came(Plane.PRIMARY, Publisher("b").say(1), ANSWER_S)) == ["b 1"]
    assert texts(planes.came(Plane.MIRROR, answering[1:], 0.5)) == ["a 2", "a 3", "a 4"]


def _run(data: st.DataObject, planes: Planes, ways: dict[Plane, list[list[Message]]]) -> list[str]:
    """Both ways go on in pieces, in any order, until they have brought everything."""
    handed: list[Message] = []
    while any(any(streams) for streams in ways.values()):
        plane = data.draw(st.sampled_from([each for each, streams in ways.items() if any(streams)]))
        stream = data.draw(st.sampled_from([each for each in ways[plane] if each]))
        many = data.draw(st.integers(1, len(stream)))
        handed += planes.came(plane, stream[:many], 0.0)
        del stream[:many]
    return texts(handed)


def test_what_waits_is_handed_over_when_the_other_way_is_gone_or_time_is_over() -> None:
    stream = Publisher().say(4)
    planes = Planes(one_subject=True)
    planes.joins(Plane.MIRROR, 0.0)
    assert planes.came(Plane.MIRROR, stream[:2], 0.0) == []
    assert texts(planes.lost(Plane.PRIMARY, 0.1)) == ["a 1", "a 2"]
    assert texts(planes.came(Plane.MIRROR, stream[2:3], 0.1)) == ["a 3"]
    other = Planes(one_subject=True)
    other.joins(Plane.MIRROR, 0.0)
    assert other.came(Plane.MIRROR, stream, 0.0) == []
    assert other.handle_timer(JOIN_S - 0.01) == []
    assert texts(other.handle_timer(JOIN_S)) == texts(stream)


def test_what_the_primary_missed_comes_before_what_it_has() -> None:
    stream = Publisher().say(4)
    planes = Planes(one_subject=True)
    planes.joins(Plane.MIRROR, 0.0)
    planes.came(Plane.MIRROR, stream, 0.0)
    assert texts(planes.came(Plane.PRIMARY, stream[2:3], 0.0)) == ["a 1", "a 2", "a 3", "a 4"]


def test_messages_without_an_id_and_of_publishers_that_have_no_mirror_do_not_wait() -> None:
    mirrored, other = Publisher("a"), Publisher("b")
    planes = Planes(one_subject=True)
    planes.came(Plane.MIRROR, mirrored.say(1), 0.0)
    planes.joins(Plane.PRIMARY, 0.0)
    assert texts(planes.came(Plane.PRIMARY, [plain("x"), plain("x")], 0.0)) == ["x", "x"]
    assert texts(planes.came(Plane.PRIMARY, other.say(2), 0.0)) == ["b 1", "b 2"]
    assert planes.came(Plane.PRIMARY, mirrored.say(1), 0.0) == []
    assert planes.held == 1


def test_no_more_is_held_than_there_is_room_for() -> None:
    subject = Planes(one_subject=True)
    subject.joins(Plane.MIRROR, 0.0)
    stream = Publisher().say(planes.MAX_HELD + 2)
    handed = subject.came(Plane.MIRROR, stream, 0.0) + subject.came(Plane.MIRROR, [], 0.0)
    assert texts(handed) == texts(stream)


def test_copies_are_known_by_their_number_when_their_ids_are_forgotten() -> None:
    """A broker that was frozen lets go of its messages long after everybody else had them."""
    publisher = Publisher()
    ids = MirroredIds(one_subject=True)
    old = publisher.say(10)
    assert len(ids.fresh(old, 0.0)) == 10
    for now in itertools.count(1):
        many = publisher.say(MIN_GENERATION)
        assert len(ids.fresh(many, now * GENERATION_S)) == MIN_GENERATION
        if ids._floors:
            break
    assert not ids.knows("t", (old[0].id or "").encode())
    assert ids.fresh(old, 100.0) == []
    assert ids.late == 10
    assert len(ids.fresh(Publisher().say(3), 100.0)) == 3, "others are not judged by it"


def test_ids_of_users_are_known_as_long_as_they_are_remembered() -> None:
    ids = MirroredIds(one_subject=False)
    head = encode_head(stamped({"Mangrove-Id": "mine"}, MessageIds()))
    first = Message("t", b"", head, "", _respond)
    second = Message("u", b"", head, "", _respond)
    assert ids.fresh([first, second, first], 0.0) == [first, second]
    assert ids.duplicates == 1


@settings(max_examples=100)
@given(data=st.data())
def test_whatever_came_by_any_way_is_handed_over_once_however_ways_come_and_go(data: st.DataObject) -> None:
    """Brokers die one soon after the other: what a way brought before its end may come by no other."""
    stream = Publisher().say(data.draw(st.integers(1, 20)))
    subject = Planes(one_subject=True)
    handed: list[Message] = []
    brought: set[str] = set()
    now = 0.0
    for _ in range(data.draw(st.integers(1, 30))):
        now += data.draw(st.sampled_from([0.0, 0.1, JOIN_S / 2]))
        plane = data.draw(st.sampled_from(list(Plane)))
        match data.draw(st.sampled_from(["came", "came", "joins", "lost"])):
            case "joins":
                subject.joins(plane, now)
            case "lost":
                handed += subject.lost(plane, now)
            case _:
                begin = data.draw(st.integers(0, len(stream) - 1))
                part = stream[begin : begin + data.draw(st.integers(1, 5))]
                brought |= set(texts(part))
                handed += subject.came(plane, part, now)
    handed += subject.handle_timer(now + JOIN_S)
    assert sorted(texts(handed)) == sorted(brought)
