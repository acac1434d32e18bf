"""Events of all domains: each once, in order of time, and none that somebody tells of another."""

from __future__ import annotations

import time

import msgspec
import pytest

from mangrove.monitor.feed import event_book
from mangrove.monitor.feed.event_book import EventBook


def line(name: str, number: int, at: float, cause: str | None = None, kind: str = "LinkFailed") -> bytes:
    details = {"peer": "b", "reason": "silence", "silent_ms": 1.0, "dead_interval_ms": 1.0}
    return msgspec.json.encode(
        {"id": f"{name}-{number}", "at": at, "kind": kind, "cause": cause, "details": details}
    )


def ids(book: EventBook) -> list[str]:
    return [event.id for event in book.events]


def test_events_of_all_domains_are_in_order_of_time_and_each_is_there_once() -> None:
    book = EventBook()
    assert book.take("a", [line("a", 1, 3.0), line("a", 2, 5.0)])
    assert book.take("b", [line("b", 1, 4.0)])
    assert not book.take("a", [line("a", 2, 5.0)])
    assert ids(book) == ["a-1", "b-1", "a-2"]
    assert [event.id for event in book.between(3.5, 4.5, 10)] == ["b-1"]
    assert [event.id for event in book.between(None, None, 1)] == ["a-2"]


def test_an_event_is_of_the_domain_that_tells_it_whatever_its_process_is_called() -> None:
    book = EventBook()
    book.take("a", [line("a-gateway2", 1, 1.0), line("a-host3-agent", 1, 2.0)])
    assert [(event.domain, event.by_agent) for event in book.events] == [("a", False), ("a", True)]


@pytest.mark.parametrize(
    "said",
    [
        line("b", 1, 1.0),
        line("ab", 1, 1.0),
        line("a", 1, time.time() + 1e9),
        line("a", 1, -1.0),
        line("a", 1, 1.0, kind="Whatever"),
        b"",
        b"[]",
        b'{"id":',
    ],
)
def test_what_no_domain_can_tell_is_left_out_and_counted(said: bytes) -> None:
    book = EventBook()
    assert not book.take("a", [said])
    assert (ids(book), book.refused) == ([], 1)


def test_events_are_bounded_and_what_is_forgotten_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_book, "MAX_EVENTS", 3)
    book = EventBook()
    book.take("a", [line("a", number, float(number)) for number in range(5)])
    assert (ids(book), book.forgotten) == (["a-2", "a-3", "a-4"], 2)
