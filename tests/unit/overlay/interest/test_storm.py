"""Many subscriptions at once: what a change costs, slices, snapshots in parts, slow neighbours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kit.engines import engine, federation, let_time_pass, want, with_links
from tests.kit.work import work_of

from mangrove.model.federation import Limits
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import (
    ChangeSubscriptions,
    ForgetRoutes,
    Instruction,
    ResetTimer,
    SendFrame,
    ServeLink,
)
from mangrove.overlay.interest.interest_database import InterestDatabase
from mangrove.overlay.interest.interest_exchange import WITHDRAW_AFTER_S
from mangrove.overlay.interest.interest_outbox import MAX_WAITING
from mangrove.overlay.interest.snapshots import SLICE_BYTES, SLICE_SUBJECTS
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate, control_body, control_frame
from mangrove.overlay.protocol.frames import Frame

CHAIN = federation(("a", "b"), ("b", "c"), topics=TopicRules((Contract(match="urgent.>", deadline_ms=50),)))


def received(engine: OverlayEngine, version: int, added: list[str], **more: Any) -> list[Instruction]:
    update = InterestUpdate(origin="b", epoch=1, version=version, snapshot=False, added=added, **more)
    return engine.receive("b", control_frame(update), 1.0)


def table_of(count: int) -> tuple[OverlayEngine, OverlayEngine]:
    """An engine whose own domain wants so many subjects, and one that has heard of them."""
    author, reader = with_links(CHAIN, "b"), with_links(CHAIN, "a")
    pass_on(author, reader, want(author, *(f"storm.{number}" for number in range(count))))
    assert len(reader.wanted_elsewhere()) == count
    return author, reader


def pass_on(sender: OverlayEngine, receiver: OverlayEngine, instructions: list[Instruction]) -> list[Frame]:
    """Carry everything from one engine to its neighbour until both are done; the frames of interest."""
    frames: list[Frame] = []
    now = 1.0
    while True:
        for frame in sent(sender, receiver.domain, instructions):
            frames.append(frame)
            for question in receiver.receive(sender.domain, frame, now):
                if isinstance(question, SendFrame) and question.peer == sender.domain:
                    instructions = sender.receive(receiver.domain, question.frame, now)
                    answers = sent(sender, receiver.domain, instructions)
                    frames += answers
                    for answer in answers:
                        receiver.receive(sender.domain, answer, now)
        if not (sender._local.pending or receiver._remote.busy):
            return frames
        now += 0.002
        for one, other in ((sender, receiver), (receiver, sender)):
            one.heard(other.domain, now)
        receiver.handle_timer(now)
        instructions = sender.handle_timer(now)


def sent(sender: OverlayEngine, peer: str, instructions: list[Instruction]) -> list[Frame]:
    frames: list[Frame] = []
    for instruction in instructions:
        if isinstance(instruction, SendFrame) and instruction.peer == peer:
            frames.append(instruction.frame)
        elif isinstance(instruction, ServeLink) and instruction.peer == peer:
            while (frame := sender.pull(peer, 1.0)) is not None:
                frames.append(frame)
    return [frame for frame in frames if isinstance(control_body(frame), InterestUpdate)]


def test_a_change_costs_what_the_change_is() -> None:
    costs = []
    for count in (1_000, 100_000):
        author, reader = table_of(count)
        version = author._remote.interest.own.version

        def at_home(author: OverlayEngine = author) -> None:
            want(author, "urgent.new")
            author.change_local_interest("urgent.new", "", False)
            author.flush(1.0)

        def elsewhere(reader: OverlayEngine = reader, version: int = version) -> None:
            received(reader, version + 1, ["urgent.new"])
            reader.route("urgent.new")
            received(reader, version + 2, [], removed=["urgent.new"])

        costs.append((work_of(at_home), work_of(elsewhere)))
    for (few_lines, few_bytes), (many_lines, many_bytes) in zip(*costs, strict=True):
        assert many_lines < 1.5 * few_lines
        assert many_bytes < 2 * few_bytes + 65536


def test_a_storm_is_passed_on_and_acted_upon_in_slices() -> None:
    author, reader = with_links(CHAIN, "b"), with_links(CHAIN, "a")
    subjects = [f"storm.{number}" for number in range(3 * SLICE_SUBJECTS)]
    instructions = want(author, *subjects)
    assert ResetTimer() in instructions, "the rest is due at once"
    assert author.timer() == 0.0
    (first,) = sent(author, "a", instructions)
    body = control_body(first)
    assert isinstance(body, InterestUpdate)
    assert body.added == sorted(subjects[:SLICE_SUBJECTS]), "those who came first are served first"
    reader.receive("b", control_frame(Digest(known={})), 1.0)
    received(reader, 1, ["x"])  # there is no base for it
    for part in range(3):
        whole = InterestUpdate(
            origin="b",
            epoch=1,
            version=1,
            snapshot=True,
            added=subjects[part * SLICE_SUBJECTS : (part + 1) * SLICE_SUBJECTS],
            part=part,
            last=part == 2,
        )
        instructions = reader.receive("b", control_frame(whole), 1.0)
        assert (ResetTimer() in instructions) == (part == 2)
    changes = [each for each in instructions if isinstance(each, ChangeSubscriptions | ForgetRoutes)]
    assert len(changes) == 2
    assert len(reader.wanted_elsewhere()) == SLICE_SUBJECTS
    reader.handle_timer(1.01)
    assert len(reader.wanted_elsewhere()) == 2 * SLICE_SUBJECTS
    let_time_pass(reader, 1.01, 1.05, heard="b")
    assert reader.wanted_elsewhere() == subjects


@pytest.mark.parametrize("length", [10, 1000])
def test_frames_of_interest_are_bounded(length: int) -> None:
    author, reader = with_links(CHAIN, "b"), with_links(CHAIN, "a")
    subjects = ["s" * (length - 5) + f"{number:05}" for number in range(1200)]
    frames = pass_on(author, reader, want(author, *subjects))
    late = with_links(CHAIN, "a")
    snapshots = sent(author, "a", author.receive("a", control_frame(late._remote.digest()), 1.0))
    assert len(snapshots) >= 3
    assert max(len(frame.body) for frame in frames + snapshots) < SLICE_BYTES + 16384
    for frame in snapshots:
        late.receive("b", frame, 1.0)
    let_time_pass(late, 1.0, 1.05, heard="b")
    assert sorted(late.wanted_elsewhere()) == sorted(reader.wanted_elsewhere()) == sorted(subjects)


def whole(version: int, added: list[str], part: int = 0, *, last: bool = True) -> InterestUpdate:
    return InterestUpdate(
        origin="b", epoch=1, version=version, snapshot=True, added=added, part=part, last=last
    )


def changed(version: int, added: list[str]) -> InterestUpdate:
    return InterestUpdate(origin="b", epoch=1, version=version, snapshot=False, added=added)


def known(database: InterestDatabase) -> tuple[tuple[int, int], set[str]]:
    ((_, interest),) = [item for item in database.domains() if item[0] == "b"]
    return interest.stamp, set(interest.subjects)


def test_changes_that_come_during_a_snapshot_follow_it() -> None:
    database = InterestDatabase("a", "abc", epoch=1)
    assert database.receive(changed(6, ["six"]), "c") == (None, True), "ask, there is no base"
    assert database.receive(changed(7, ["seven"]), "c") == (None, False), "asked already"
    assert database.receive(whole(5, ["x"], last=False), "c") == (None, False)
    change, gap = database.receive(whole(5, ["y"], 1), "c")
    assert change is not None
    assert not gap
    assert known(database) == ((1, 7), {"x", "y", "six", "seven"})
    assert change.added == {"x", "y", "six", "seven"}


def test_a_gap_that_a_snapshot_does_not_close_is_asked_for_again() -> None:
    database = InterestDatabase("a", "abc", epoch=1)
    database.receive(changed(7, ["seven"]), "c")
    assert database.receive(whole(5, ["x"]), "c")[1]


def test_parts_of_two_neighbours_are_not_mixed_and_a_broken_snapshot_is_given_up() -> None:
    database = InterestDatabase("a", "abcd", epoch=1)
    database.receive(whole(5, ["x"], last=False), "c")
    assert database.receive(whole(5, ["y"], 1), "d") == (None, False), "the first part never came from d"
    assert database.ignored_updates == 1
    assert database.forget_peer("c"), "others should be asked"
    assert database.receive(whole(5, ["y"], 1), "c") == (None, False)
    assert not database.forget_peer("c")
    change, _ = database.receive(whole(5, ["z"]), "d")
    assert change is not None
    assert known(database) == ((1, 5), {"z"})


def test_beyond_the_limit_subjects_wait_and_are_served_when_there_is_room() -> None:
    database = InterestDatabase("a", "ab", epoch=1, max_subjects=2)
    database.change_local(["x", "y", "z"], [])
    assert (set(database.own.subjects), list(database.waiting)) == ({"x", "y"}, ["z"])
    assert (database.refused_subjects, database.refused_examples) == (1, ["z"])
    assert database.warnings() == [
        "a wants 2 subjects, of at most 2",
        "a wants 1 more, which are not served: z",
    ]
    update = database.change_local([], ["x"])
    assert update is not None
    assert (update.added, update.removed) == (["z"], ["x"])
    database.receive(whole(1, ["1", "2", "3"]))
    assert known(database)[1] == {"1", "2"}
    assert database.refused_examples == ["z", "3"]
    assert database.warnings()[-1] == "a refused subjects, as 'z', '3'"


def test_a_limit_is_told_before_it_is_reached() -> None:
    shape = msgspec.structs.replace(federation(("a", "b")), limits=Limits(subjects=10))
    own = with_links(shape, "a")
    want(own, *(f"x.{number}" for number in range(7)))
    assert own.status(1.0).warnings == ()
    want(own, "x.7")
    assert own.status(1.0).warnings == ("a wants 8 subjects, of at most 10",)
    want(own, *(f"y.{number}" for number in range(5)))
    assert own.status(1.0).refused_subjects == 3
    assert own.status(1.0).refused_examples == ("y.2", "y.3", "y.4")


def test_a_neighbour_that_takes_nothing_gets_a_snapshot_later() -> None:
    author, reader = with_links(CHAIN, "b"), with_links(CHAIN, "a")
    count = (MAX_WAITING + 20) * SLICE_SUBJECTS
    instructions = want(author, *(f"storm.{number}" for number in range(count)))
    now = 1.0
    while author._local.pending:  # nobody pulls
        now += 0.002
        for peer in "ac":
            author.heard(peer, now)
        author.handle_timer(now)
    outbox = author._exchange._outboxes["a"]
    assert len(outbox._waiting) == MAX_WAITING
    frames = pass_on(author, reader, instructions)
    assert any(isinstance(body := control_body(frame), InterestUpdate) and body.snapshot for frame in frames)
    assert len(reader.wanted_elsewhere()) == count
    assert not outbox.waits


def test_interest_and_data_share_a_link_by_bytes() -> None:
    shape = federation(("a", "b"))
    own = with_links(shape, "a")
    own.receive("b", control_frame(whole(1, ["x"])), 1.0)
    for size_bytes in (100, 100, 20_000, 100, 100):
        ((flow, *_),) = own.route("x")
        flow.take(b"LMSG x %d\r\n%b\r\n" % (size_bytes, bytes(size_bytes)))
        own.flush(1.0)
    for number in range(2 * SLICE_SUBJECTS):
        own.change_local_interest(f"a.rather.long.subject.{number}", "", True)
    own.flush(1.0)
    own.handle_timer(1.002)
    pulled = [frame.type.name for _ in range(9) if (frame := own.pull("b", 1.0)) is not None]
    assert pulled == ["INTEREST", "DATA", "DATA", "DATA", "INTEREST", "DATA", "DATA"]


def test_an_engine_that_lost_the_neighbour_that_owed_interest_asks_the_others() -> None:
    ring = federation(("a", "b"), ("b", "c"), ("a", "c"))
    own = with_links(ring, "a")
    late = InterestUpdate(origin="b", epoch=1, version=9, snapshot=False, added=["x"])
    asked = own.receive("c", control_frame(late), 1.0)
    assert [type(control_body(each.frame)) for each in asked if isinstance(each, SendFrame)] == [Digest]
    told = [each for each in own.peer_down("c", 1.0) if isinstance(each, SendFrame)]
    assert ("b", Digest) in [(each.peer, type(control_body(each.frame))) for each in told]


def test_unsubscribing_in_a_storm_leaves_nothing() -> None:
    author, reader = table_of(2_000)
    for number in range(2_000):
        author.change_local_interest(f"storm.{number}", "", False)
    pass_on(author, reader, author.flush(1.0))
    assert reader.wanted_elsewhere() == []
    assert reader.route("storm.1") == ()
    assert engine(CHAIN, "a")._flows.wanted == reader._flows.wanted == 0


def test_who_subscribes_and_unsubscribes_without_end_is_seldom_told_of() -> None:
    own = with_links(CHAIN, "b")
    want(own, "lasting")
    told = 0
    for step in range(2000):  # a flap each millisecond, for two seconds
        now = 2.0 + step / 1000
        own.change_local_interest("flap", "", step % 2 == 0)
        told += len(sent(own, "a", own.flush(now)))
        if own.timer() <= now:
            for peer in "ac":
                own.heard(peer, now)
            told += sum(
                isinstance(control_body(frame), InterestUpdate)
                for frame in sent(own, "a", own.handle_timer(now))
            )
    assert told <= 2 * 2.0 / WITHDRAW_AFTER_S


def test_what_nobody_wants_any_more_is_told_a_moment_later() -> None:
    own = with_links(CHAIN, "b")
    want(own, "x")
    own.change_local_interest("x", "", False)
    assert own.flush(2.0) == [ResetTimer()]
    assert own.timer() <= 2.0 + WITHDRAW_AFTER_S
    frames = sent(own, "a", own.handle_timer(2.0 + WITHDRAW_AFTER_S))
    (update,) = (body for frame in frames if isinstance(body := control_body(frame), InterestUpdate))
    assert (update.added, update.removed) == ([], ["x"])


def test_interest_does_not_wait_for_data_that_waits_for_acknowledgements() -> None:
    shape = msgspec.structs.replace(federation(("a", "b")), queue_bytes=10_000)
    own = with_links(shape, "a")
    own.receive("b", control_frame(whole(1, ["x"])), 1.0)

    def publish() -> None:
        ((flow, *_),) = own.route("x")
        flow.take(b"LMSG x 9000\r\n%b\r\n" % bytes(9000))
        own.flush(1.0)

    for _ in range(2):
        publish()
        assert own.pull("b", 1.0) is not None
    publish()
    assert own.pull("b", 1.0) is None, "too much is unacknowledged"
    for number in range(2 * SLICE_SUBJECTS):
        own.change_local_interest(f"a.rather.long.subject.{number}", "", True)
    own.flush(1.0)
    own.handle_timer(1.002)
    pulled = [frame.type.name for _ in range(3) if (frame := own.pull("b", 1.0)) is not None]
    assert pulled == ["INTEREST", "INTEREST"]
