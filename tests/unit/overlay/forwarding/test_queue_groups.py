"""Who serves a queue group: chosen by the source, or by who holds messages for a lost domain."""

from __future__ import annotations

from tests.kit.engines import ad, data, federation, learn, let_time_pass, report, with_links

from mangrove.model.topics import Contract, Queue, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import DropMessages, ForgetRoutes, RetargetMessages, SendFrame
from mangrove.overlay.protocol.control_messages import InterestUpdate, control_frame
from mangrove.overlay.protocol.frames import Frame, FrameType, Predecessor

LINE = federation(("a", "b"), ("b", "c"), ("c", "d"))
STAR = federation(("a", "b"), ("a", "c"))


def told(engine: OverlayEngine, subject: str) -> list[tuple[int, tuple[str, ...]]]:
    return [(route.flow.destinations, route.groups) for route in engine.route(subject)]


def test_each_group_is_served_by_the_nearest_domain_and_plain_subscribers_by_all() -> None:
    source = with_links(LINE, "a")
    learn(source, "b", ["x.> audit"], "b")
    learn(source, "c", ["x.* workers", "x.1"], "b")
    learn(source, "d", ["x.1 workers", "x.1 audit", ">"], "b")
    assert told(source, "x.1") == [(0b1000, ()), (0b0010, ("audit",)), (0b0100, ("workers",))]
    assert told(source, "x.2.3") == [(0b1000, ()), (0b0010, ("audit",))]
    assert told(source, "y") == [(0b1000, ())]


def test_ties_are_settled_by_name() -> None:
    source = with_links(STAR, "a")
    learn(source, "c", ["x g"], "c")
    assert told(source, "x") == [(0b100, ("g",))]
    learn(source, "b", ["x g"], "b")
    assert told(source, "x") == [(0b010, ("g",))]


def test_a_group_with_a_member_at_home_is_served_there() -> None:
    source = with_links(STAR, "a")
    learn(source, "b", ["x g", "x h"], "b")
    assert source.change_local_interest("*", "g", True)
    assert told(source, "x") == [(0b010, ("h",))]
    source.change_local_interest("*", "g", False)
    assert told(source, "x") == [(0b010, ("g", "h"))]


def test_local_each_sends_to_all_who_want_it_and_names_nobody() -> None:
    rules = TopicRules((Contract(match="x", queue=Queue.LOCAL_EACH),))
    source = with_links(federation(("a", "b"), ("a", "c"), topics=rules), "a")
    source.change_local_interest("x", "g", True)
    learn(source, "b", ["x g"], "b")
    learn(source, "c", ["x"], "c")
    assert told(source, "x") == [(0b110, ())]


def test_a_flow_that_begins_to_name_groups_comes_after_the_one_before() -> None:
    source = with_links(STAR, "a")
    learn(source, "b", ["x"], "b")
    ((before, *_),) = source.route("x")
    before.take(b"1")
    source.flush(1.0)
    source.receive("b", learn_again("b", ["x", "x g"]), 1.1)
    ((after, groups, _),) = source.route("x")
    assert (after is not before, groups) == (True, ("g",))
    after.take(b"2")
    frames = [each.frame for each in data(source, source.flush(1.2), 1.2) if isinstance(each, SendFrame)]
    assert [frame.type for frame in frames][-1] is FrameType.JOBS
    assert frames[-1].predecessors == (Predecessor(before.id, 1, 0b010),)


def test_a_group_moves_when_its_domain_cannot_be_reached_and_lines_are_judged_anew() -> None:
    source = with_links(federation(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")), "a")
    learn(source, "b", ["x g"], "b")
    learn(source, "c", ["x g"], "c")
    assert told(source, "x") == [(0b0010, ("g",))]
    source.peer_down("b", 2.0)
    assert told(source, "x") == [(0b0010, ("g",))], "there is another way, and it is not clearly farther"
    gone = ad("d", 1, b=report(up=False), c=report(delay_ms=1.0))
    instructions = source.receive("c", control_frame(gone), 2.1)
    assert ForgetRoutes((">",)) in instructions
    assert told(source, "x") == [(0b0100, ("g",))]


def test_a_frame_that_names_groups_does_not_wait_for_its_domain_but_plain_ones_do() -> None:
    holder = with_links(LINE, "b")
    holder.peer_down("c", 1.0)
    jobs = Frame(FrameType.JOBS, b"", 9, 0, 0, 1, 0b1000, flow_id=1, sequence=1)
    plain = Frame(FrameType.DATA, b"", 9, 0, 0, 1, 0b1000, flow_id=2, sequence=1)
    (turned,) = data(holder, holder.receive("a", jobs, 1.1))
    assert isinstance(turned, RetargetMessages)
    assert (turned.frame.destinations, turned.frame.hop_limit) == (0b1000, 8)
    assert data(holder, holder.receive("a", plain, 1.1)) == []


def test_messages_turn_to_the_next_nearest_or_wait_or_are_lost() -> None:
    holder = with_links(LINE, "b")
    learn(holder, "a", ["x g"], "a")
    learn(holder, "d", ["x g", "x h", "x"], "c")
    holder.peer_down("c", 1.0)
    turned = holder.retarget("x", ("g", "h", "i"), 0b1000, 8)
    assert turned.lost == ("i",)
    assert [(r.flow.destinations, r.groups, r.flow.hop_limit) for r in turned.routes] == [
        (0b1000, ("h",), 8),
        (0b0001, ("g",), 7),
    ]
    (waiting, *_), _ = turned.routes
    waiting.take(b"LMSG x | h 0\r\n\r\n")
    assert data(holder, holder.flush(1.1)) == [], "it waits, and does not turn again at once"
    late = let_time_pass(holder, 1.1, 12.0, heard=["a"])
    assert [each.reason for each in late if isinstance(each, DropMessages)] == [
        "expired while no way led to the destination"
    ]


def test_what_has_gone_far_enough_is_lost() -> None:
    holder = with_links(LINE, "b")
    learn(holder, "a", ["x g"], "a")
    assert holder.retarget("x", ("g",), 0b1000, 1).lost == ("g",)


def learn_again(author: str, wanted: list[str]) -> Frame:
    return control_frame(InterestUpdate(origin=author, epoch=1, version=2, snapshot=True, added=wanted))
