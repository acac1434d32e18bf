"""Whatever overtakes, comes twice, gets lost or moves to another flow: order is kept, nothing is lost here.

Frames are made by the flows of an origin, whose destinations change, and come to each destination in any
order that a network can make of them.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.flow_tables import flow_of, flow_table
from tests.kit.frames import Seconds, frame

from mangrove.model.topics import TopicRules
from mangrove.overlay.delivery import resequencer
from mangrove.overlay.delivery.resequencer import Resequencer
from mangrove.overlay.delivery.seen_frames import SeenFrames, Verdict
from mangrove.overlay.protocol.frames import Frame, Predecessor

ORDER = ("a", "b", "c", "d")
SUBJECTS = ("x", "y")
HOLD_S = 0.2
INTERVAL_S = 0.001

changes = st.tuples(st.sampled_from(ORDER[1:]), st.sampled_from(SUBJECTS))
steps = st.lists(st.one_of(st.sampled_from(SUBJECTS), changes), min_size=1, max_size=60)


def sent(plan: list[str | tuple[str, str]]) -> list[tuple[float, Frame]]:
    """What an origin sends: a message for a subject, or interest that comes or goes."""
    table = flow_table(ORDER, TopicRules())
    wanted: set[tuple[str, str]] = set()
    frames = []
    for number, step in enumerate(plan):
        now = number * INTERVAL_S
        if isinstance(step, tuple):
            (table.forget if step in wanted else table.want)(*step)
            wanted ^= {step}
        elif (flow := flow_of(table, step)) is not None:
            before = table.predecessors(flow, now)
            flow.sequence += 1
            frames.append(
                (
                    now,
                    frame(
                        f"{step} {number}".encode(),
                        epoch=1,
                        flow_id=flow.id,
                        sequence=flow.sequence,
                        destinations=flow.destinations,
                        predecessors=before,
                    ),
                )
            )
    return frames


def received(arrivals: list[tuple[float, Frame]], bit: int) -> tuple[list[tuple[float, bytes]], Resequencer]:
    """What a destination delivers, and when."""
    seen, sequencer = SeenFrames(), Resequencer(Seconds(HOLD_S), bit)
    delivered = []
    for now, one in sorted(arrivals, key=lambda arrival: arrival[0]):
        while (timer := sequencer.timer()) is not None and timer <= now:
            delivered += [(timer, each.body) for each in sequencer.expired(timer)]
        new = seen.check(one.name) is Verdict.NEW
        ready = sequencer.arrived(one, now) if new else sequencer.repeated(one, now)
        delivered += [(now, each.body) for each in ready]
        assert not sequencer.problems()
    while (timer := sequencer.timer()) is not None:
        delivered += [(timer, each.body) for each in sequencer.expired(timer)]
    return delivered, sequencer


def by_subject(delivered: list[tuple[float, bytes]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for _, body in delivered:
        subject, number = body.decode().split()
        found.setdefault(subject, []).append(int(number))
    return found


@settings(max_examples=200, deadline=None)
@given(plan=steps, data=st.data())
def test_order_is_kept_while_nothing_is_later_than_the_hold(
    plan: list[str | tuple[str, str]], data: st.DataObject
) -> None:
    """Each frame takes its time, some take two ways; all are there before the hold is over."""
    frames = sent(plan)
    for bit in (2, 4, 8):
        arrivals = []
        for now, one in frames:
            if one.destinations & bit:
                delays = data.draw(st.lists(st.floats(0.01, 0.09), min_size=1, max_size=2))
                arrivals += [(now + delay, _by(one, way)) for way, delay in enumerate(delays)]
        delivered, sequencer = received(arrivals, bit)
        assert sorted(body for _, body in delivered) == sorted(
            one.body for _, one in frames if one.destinations & bit
        ), "nothing is lost, nothing comes twice"
        for subject, numbers in by_subject(delivered).items():
            assert numbers == sorted(numbers), f"{subject}: {numbers}"
        assert (sequencer.gaps, sequencer.out_of_turn) == (0, 0)


@settings(max_examples=200, deadline=None)
@given(plan=steps, data=st.data())
def test_what_is_lost_or_very_late_costs_no_more_than_the_hold(
    plan: list[str | tuple[str, str]], data: st.DataObject
) -> None:
    """Only frames that name predecessors come in time: what they say would be lost with them."""
    arrived: dict[bytes, tuple[float, Frame]] = {}
    for now, one in sent(plan):
        if one.destinations & 2:
            usual = st.floats(0.01, 0.09)
            delay = data.draw(usual if one.predecessors else usual | st.none() | st.floats(0.2, 1.0))
            if delay is not None:
                arrived[one.body] = (now + delay, one)
    delivered, sequencer = received(list(arrived.values()), 2)
    assert sorted(body for _, body in delivered) == sorted(arrived), "what arrived is delivered, once"
    for at, body in delivered:
        assert at <= arrived[body][0] + HOLD_S + 1e-9
    inversions = sum(
        later < earlier for numbers in by_subject(delivered).values() for earlier, later in pairwise(numbers)
    )
    assert inversions <= sequencer.out_of_turn, "only what was given up comes out of order"


names = st.tuples(st.integers(0, 1), st.just(1), st.integers(1, 3), st.integers(0, 7))
said = st.lists(st.builds(Predecessor, st.integers(1, 4), st.integers(0, 40), st.just(2)), max_size=2)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 8), st.lists(st.tuples(names, said, st.floats(0.0, 0.05)), max_size=40))
def test_whatever_origins_say_all_is_delivered_once_and_nothing_for_much_later_than_the_hold(
    most_flows: int, told: list[tuple[tuple[int, int, int, int], list[Predecessor], float]]
) -> None:
    """Nonsense, of more flows than are kept."""
    arrivals, now = [], 0.0
    for (origin, epoch, flow_id, sequence), predecessors, pause in told:
        now += pause
        one = frame(
            b"%d %d %d %d" % (origin, epoch, flow_id, sequence),
            origin=origin,
            epoch=epoch,
            flow_id=flow_id,
            sequence=sequence,
            predecessors=tuple(predecessors),
        )
        arrivals.append((now, one))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resequencer, "MAX_FLOWS", most_flows)
        delivered, _ = received(arrivals, 2)
    first = {one.body: at for at, one in reversed(arrivals)}
    assert sorted(body for _, body in delivered) == sorted(first)
    assert all(at <= first[body] + HOLD_S + 1e-9 for at, body in delivered)


def _by(one: Frame, way: int) -> Frame:
    return one.onward(one.destinations, 0, way) if way else one
