"""What waits for a broker: nothing disappears, order and bounds hold, any cut of the files is borne."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mangrove.client.offline.backlog import Backlog
from mangrove.client.offline.flight import MAX_MESSAGES, MAX_UNCONFIRMED, SETTLE_S, Flight
from mangrove.client.offline.kept import MESSAGE_BYTES, Dropped, Kept, Reason
from mangrove.client.offline.records import MAGIC, done_records, kept_record, read_segment
from mangrove.client.offline.spool import Spool
from mangrove.client.offline.urgency import Urgency

SUBJECTS = ("alert.a", "alert.b", "sensor.a", "plain.a")
URGENT, USUAL, NOT = Urgency(0.1, True), Urgency(5.0, False), Urgency(math.inf, False)
URGENCIES = {"alert.a": URGENT, "alert.b": URGENT, "sensor.a": USUAL, "plain.a": NOT}
MAX_BYTES = 12 * (MESSAGE_BYTES + 20)
MAX_AGE_S = 60.0
SECOND_NS = 1_000_000_000


class BacklogMachine(RuleBasedStateMachine):
    """Against lists by subject."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog = Backlog(MAX_BYTES, MAX_AGE_S, URGENCIES.__getitem__)
        self.model: dict[str, list[Kept]] = {subject: [] for subject in SUBJECTS}
        self.sent: list[Kept] = []
        """Taken, and not put back."""
        self.aside: dict[str, int] = {}
        """What subjects wait for that are set aside."""
        self.now_ns = SECOND_NS
        self.number = 0

    def waiting(self) -> list[str]:
        return [each for each in SUBJECTS if self.model[each] and each not in self.aside]

    def gave_up(self, dropped: list[Dropped]) -> None:
        for kept, reason in dropped:
            assert self.model[kept.subject].pop(0) == kept, "always the oldest of its subject"
            age_s = (self.now_ns - kept.at_ns) / 1e9
            if reason is Reason.LATE:
                assert URGENCIES[kept.subject] is URGENT
                assert age_s > URGENT.deadline_s
            elif reason is Reason.TOO_OLD:
                assert age_s > MAX_AGE_S
            else:
                less_urgent = [s for s in SUBJECTS if URGENCIES[s] > URGENCIES[kept.subject]]
                assert not any(self.model[subject] for subject in less_urgent)
                equals = [s for s in SUBJECTS if URGENCIES[s] == URGENCIES[kept.subject]]
                assert all(each.number > kept.number for s in equals for each in self.model[s])

    @rule(subject=st.sampled_from(SUBJECTS), size=st.integers(0, 300))
    def add(self, subject: str, size: int) -> None:
        self.number += 1
        kept = Kept(self.number, self.now_ns, subject, bytes(size))
        self.model[subject].append(kept)
        self.gave_up(self.backlog.add(kept))

    @rule(many=st.integers(1, 5))
    def send(self, many: int) -> None:
        for _ in range(many):
            subject = next(self.backlog.by_urgency(), None)
            if subject is None:
                assert not self.waiting()
                return
            assert subject in self.waiting()
            most = min(URGENCIES[each] for each in self.waiting())
            assert URGENCIES[subject] == most, "the most urgent first"
            first = self.backlog.first(subject)
            kept = self.backlog.take(subject)
            assert first == kept == self.model[subject].pop(0)
            self.sent.append(kept)
            self.backlog.had_its_turn(subject)

    @rule()
    def put_back(self) -> None:
        """What was sent last waits again, before all others of its subject."""
        newest = {
            subject: min((k.number for k in self.model[subject]), default=math.inf) for subject in SUBJECTS
        }
        back = [kept for kept in self.sent[-6:] if kept.number < newest[kept.subject]]
        self.sent = []
        for kept in sorted(back, key=lambda one: one.number, reverse=True):
            self.model[kept.subject].insert(0, kept)
        self.gave_up(self.backlog.put_back(back))

    @rule(by_ms=st.integers(1, 40_000))
    def pass_time(self, by_ms: int) -> None:
        self.now_ns += by_ms * 1_000_000
        self.gave_up(self.backlog.expire(self.now_ns))

    @rule(subject=st.sampled_from(SUBJECTS), what=st.integers(0, 2))
    def set_aside(self, subject: str, what: int) -> None:
        self.backlog.set_aside(subject, what)
        self.aside[subject] = what  # nobody notes it if nothing waits

    @rule(what=st.integers(0, 2))
    def bring_back(self, what: int) -> None:
        self.backlog.bring_back(what)
        self.aside = {subject: each for subject, each in self.aside.items() if each != what}

    @rule(subject=st.sampled_from(SUBJECTS))
    def bring_back_subject(self, subject: str) -> None:
        self.backlog.bring_back_subject(subject)
        self.aside.pop(subject, None)

    @rule()
    def learn(self) -> None:
        self.backlog.govern(URGENCIES.__getitem__)
        self.aside = {}

    @invariant()
    def what_is_set_aside_is_not_looked_at(self) -> None:
        self.aside = {subject: what for subject, what in self.aside.items() if self.model[subject]}
        assert sorted(self.backlog.by_urgency()) == sorted(self.waiting())
        assert {what for what in range(3) if self.backlog.waits_for(what)} == {*self.aside.values()}
        assert {*self.backlog.subjects()} == {subject for subject in SUBJECTS if self.model[subject]}

    @invariant()
    def nothing_disappears(self) -> None:
        waiting = sorted((kept for each in self.model.values() for kept in each), key=lambda one: one.number)
        assert list(self.backlog) == waiting
        assert self.backlog.messages == len(waiting)
        assert self.backlog.size_bytes == sum(kept.size_bytes for kept in waiting) <= MAX_BYTES
        assert {subject for subject in SUBJECTS if subject in self.backlog} == {k.subject for k in waiting}
        assert self.backlog.oldest_ns() == min((kept.at_ns for kept in waiting), default=None)


TestBacklog = BacklogMachine.TestCase
TestBacklog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class FlightMachine(RuleBasedStateMachine):
    """Nothing leaves that was not confirmed for a while; what may be lost is given back in order."""

    def __init__(self) -> None:
        super().__init__()
        self.flight = Flight()
        self.model: list[tuple[Kept, float | None]] = []
        """Messages, and when each was confirmed."""
        self.asked: list[tuple[int, int, int]] = []
        self.now = 0.0
        self.number = 0

    @rule(subject=st.sampled_from(SUBJECTS), many=st.integers(1, 5))
    def send(self, subject: str, many: int) -> None:
        for _ in range(many):
            self.number += 1
            kept = Kept(self.number, 0, subject, b"x")
            self.model.append((kept, None))
            self.flight.add(kept)

    @rule()
    def ask(self) -> None:
        self.asked.append((self.flight.end, self.flight.takes, self.number))

    @rule(which=st.integers(0, 3))
    def answer(self, which: int) -> None:
        if which < len(self.asked):
            end, takes, number = self.asked.pop(which)
            if takes == self.flight.takes:
                self.model = [
                    (kept, self.now if at is None and kept.number <= number else at)
                    for kept, at in self.model
                ]
            self.flight.confirm(end, takes, self.now)

    @rule(by_s=st.floats(0, 0.4))
    def pass_time(self, by_s: float) -> None:
        self.now += by_s
        settled = self.flight.settle(self.now)
        assert settled == [kept for kept, _ in self.model[: len(settled)]]
        assert all(at is not None and at + SETTLE_S <= self.now for _, at in self.model[: len(settled)])
        self.model = self.model[len(settled) :]
        assert not (self.model and self.model[0][1] is not None and self.model[0][1] + SETTLE_S <= self.now)

    @rule(lost=st.sets(st.sampled_from(SUBJECTS)))
    def lose(self, lost: set[str]) -> None:
        taken = self.flight.take_back(lost.__contains__)
        assert [kept.number for kept in taken] == [k.number for k, _ in self.model if k.subject in lost]
        assert all(kept.again for kept in taken)
        self.model = [(kept, None) for kept, _ in self.model if kept.subject not in lost]

    @invariant()
    def counts(self) -> None:
        assert len(self.flight) == len(self.model)
        assert self.flight.unconfirmed() == {kept.subject for kept, at in self.model if at is None}


TestFlight = FlightMachine.TestCase
TestFlight.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_unconfirmed_messages_make_publishers_wait_and_confirmed_ones_give_way() -> None:
    flight = Flight()
    for number in range(3 * MAX_MESSAGES):
        if flight.full:
            flight.confirm(flight.end, flight.takes, 0.0)
            flight.settle(0.0)
        flight.add(Kept(number, 0, "a", b""))
        assert len(flight) <= MAX_MESSAGES + MAX_UNCONFIRMED
    assert flight.shortened


words = st.text("abcß", min_size=1, max_size=5)
subjects = st.lists(words, min_size=1, max_size=3).map(".".join)
messages = st.lists(
    st.tuples(subjects, st.binary(max_size=40), st.binary(max_size=20), st.one_of(st.just(""), subjects)),
    max_size=8,
).map(lambda rows: [Kept(n, n * 10, s, p, h, r) for n, (s, p, h, r) in enumerate(rows, 1)])


@given(messages=messages, data=st.data())
def test_any_cut_of_a_segment_gives_what_was_whole(messages: list[Kept], data: st.DataObject) -> None:
    ends = [len(MAGIC)]
    whole = MAGIC
    for kept in messages:
        whole += kept_record(kept)
        ends.append(len(whole))
    cut = data.draw(st.integers(0, len(whole)))
    read = read_segment(whole[:cut])
    complete = sum(end <= cut for end in ends) - 1
    assert read.records == messages[: max(complete, 0)]
    assert read.unreadable_bytes == cut - (ends[complete] if complete >= 0 else 0)


@given(messages=messages.filter(bool), data=st.data())
def test_a_changed_byte_gives_no_message_that_was_not_written(
    messages: list[Kept], data: st.DataObject
) -> None:
    whole = bytearray(MAGIC + b"".join(map(kept_record, messages)))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    read = read_segment(bytes(whole))
    assert read.records == messages[: len(read.records)]
    assert len(read.records) < len(messages)
    assert read.unreadable_bytes


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_counted(noise: bytes) -> None:
    for data in (noise, MAGIC + noise):
        read = read_segment(data)
        assert not read.records
        assert read.unreadable_bytes == len(data) - (len(MAGIC) if data.startswith(MAGIC) else 0)


@given(st.sets(st.integers(0, 60)))
def test_numbers_that_are_done_are_told_in_ranges(numbers: set[int]) -> None:
    told = read_segment(MAGIC + done_records(numbers))
    assert not told.unreadable_bytes
    found: set[int] = set()
    for record in told.records:
        assert isinstance(record, tuple)
        found |= set(range(record[0], record[1] + 1))
    assert found == numbers


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 30_000)), max_size=40)


@settings(max_examples=30, deadline=None)
@given(steps=steps)
def test_a_spool_that_is_opened_again_has_what_waits(steps: list[tuple[bool, int, int]]) -> None:
    """However often messages come and go, and whenever the process ends."""
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "spool"
        waiting: dict[int, Kept] = {}
        number = 0
        spool = Spool(folder, 1 << 16)
        for keep, which, size in steps:
            if keep:
                number += 1
                waiting[number] = Kept(number, number, f"s.{which}", bytes(size))
                spool.keep(waiting[number])
            elif which == 0:
                spool.close()
                spool = Spool(folder, 1 << 16)
            else:
                over = list(waiting)[which - 1 :: 2]
                spool.done(over)
                for each in over:
                    del waiting[each]
            live = sum(kept.size_bytes for kept in waiting.values())
            assert spool.size_bytes <= 2 * (live + (1 << 16)) + 60_000
            assert spool.size_bytes == sum(path.stat().st_size for path in folder.glob("*.spool"))
        spool.close()
        _same(folder, lambda found: found == list(waiting.values()))


def _same(folder: Path, holds: Callable[[list[Kept]], bool]) -> None:
    spool = Spool(folder, 1 << 16)
    spool.close()
    assert holds(spool.found.waiting)
    assert not spool.found.unreadable_bytes


@settings(max_examples=40, deadline=None)
@given(messages=messages.filter(bool), data=st.data())
def test_a_spool_cut_anywhere_goes_on(messages: list[Kept], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "spool"
        spool = Spool(folder, 1 << 16)
        for kept in messages:
            spool.keep(kept)
        spool.close()
        [segment] = folder.glob("*.spool")
        whole = segment.read_bytes()
        segment.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
        again = Spool(folder, 1 << 16)
        found = again.found.waiting
        assert found == messages[: len(found)]
        added = Kept(1_000, 5, "new.one", b"x")
        again.keep(added)
        again.close()
        last = Spool(folder, 1 << 16)
        assert last.found.waiting == [*found, added]
        last.done([kept.number for kept in last.found.waiting])
        assert last.size_bytes == 0
        last.close()
        _same(folder, lambda waiting: not waiting)
