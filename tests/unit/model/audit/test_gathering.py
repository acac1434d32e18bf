"""Who attacks cannot fill the disk, nor push out what others did."""

from __future__ import annotations

from mangrove.model.audit.entry import MAX_FACT_LENGTH, MAX_FACTS, AuditKind, clean_facts, clean_text
from mangrove.model.audit.gathering import OTHERS, STRANGERS_BURST, WINDOW_S, Gathering

REFUSED = AuditKind.CONNECTION_REFUSED


def test_the_first_is_written_at_once_and_its_repetitions_as_one() -> None:
    gathering = Gathering()
    facts = {"host": "10.0.0.1", "reason": "no key"}
    first = gathering.note(REFUSED, dict(facts), 0.0)
    assert first is not None
    assert (first.facts, first.times) == (facts, 1)
    for number in range(1, 1001):
        assert gathering.note(REFUSED, dict(facts), number / 100) is None
    assert gathering.due(WINDOW_S - 1) == []
    (again,) = gathering.due(WINDOW_S)
    assert (again.facts, again.times, again.since) == (facts, 1000, 0.01)
    assert gathering.counts[REFUSED] == 1001
    assert gathering.due(10 * WINDOW_S) == []


def test_facts_that_are_always_others_are_left_out_beyond_a_budget_and_counted() -> None:
    gathering = Gathering()
    written = [gathering.note(REFUSED, {"peer": f"name{number}"}, 0.0) for number in range(100_000)]
    assert sum(each is not None for each in written) == STRANGERS_BURST
    assert len(gathering) == STRANGERS_BURST + 1, "what is held is bounded"
    (others,) = gathering.due(WINDOW_S)
    assert (others.facts, others.times) == ({OTHERS: True}, 100_000 - STRANGERS_BURST)


def test_a_flood_of_one_kind_takes_nothing_from_another() -> None:
    gathering = Gathering()
    for number in range(10_000):
        gathering.note(REFUSED, {"peer": f"name{number}"}, 0.0)
    assert gathering.note(AuditKind.OPERATION_CARRIED_OUT, {"by": "ada"}, 0.0) is not None
    assert gathering.note(AuditKind.ACCESS_REFUSED, {"rule": 1}, 0.0) is not None


def test_a_day_of_flood_becomes_few_entries() -> None:
    gathering = Gathering()
    entries = 0
    for second in range(0, 86_400, 2):
        entries += gathering.note(REFUSED, {"peer": str(second)}, float(second)) is not None
        entries += len(gathering.due(float(second)))
    assert entries < 86_400 / 60 * 4


def test_what_was_counted_is_written_at_the_end() -> None:
    gathering = Gathering()
    for _ in range(3):
        gathering.note(REFUSED, {}, 5.0)
    (rest,) = gathering.rest()
    assert rest.times == 2
    assert len(gathering) == 0


def test_facts_are_few_short_and_harmless_on_a_terminal() -> None:
    facts = clean_facts({f"fact{number}": "x" for number in range(50)})
    assert len(facts) == MAX_FACTS
    shown = clean_text("\x1b[2J\nroot logged in\r" + "y" * 5000)
    assert len(shown) == MAX_FACT_LENGTH
    assert shown.isprintable()
