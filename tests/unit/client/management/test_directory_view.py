"""What a client keeps of the directory."""

from __future__ import annotations

import pytest

from mangrove.client.management import directory_view as module
from mangrove.client.management.directory_view import DirectoryView
from mangrove.model.agents.directory import DirectoryRecord


def record(topic: str, epoch: int, *edges: str, domain: str = "here") -> DirectoryRecord:
    return DirectoryRecord(topic=topic, domain=domain, epoch=epoch, edges=edges)


def view_of(*own: str) -> DirectoryView:
    return DirectoryView("here", set(own).__contains__)


def test_the_latest_epoch_counts() -> None:
    view = view_of()
    assert view.take([record("a", 2, "e1")]) == [record("a", 2, "e1")]
    assert view.take([record("a", 2, "e1")]) == [], "known already"
    assert view.take([record("a", 1, "e2"), record("a", 3, domain="there")]) == []
    news = [record("a", 4, "e3"), record("b", 1, "e1")]
    assert view.take(news) == news
    assert dict(view) == {"a": record("a", 4, "e3"), "b": record("b", 1, "e1")}
    assert view.ignored == {"older epoch": 1, "other domain": 1}


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 2)
    view = view_of()
    view.take([record("a", 1, "e"), record("b", 1, "e"), record("c", 1, "e"), record("a", 2, "e")])
    assert set(view) == {"a", "b"}
    assert view["a"].epoch == 2
    assert view.ignored == {"no room": 1}


def test_what_is_withdrawn_is_told_and_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 2)
    view = view_of()
    for number in range(10):
        assert view.take([record(f"t.{number}", 2 * number + 1, "e")])
        assert view.take([record(f"t.{number}", 2 * number + 2)]) == [record(f"t.{number}", 2 * number + 2)]
    assert dict(view) == {}
    assert not view.ignored


def test_what_was_said_before_a_topic_was_withdrawn_does_not_bring_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_WITHDRAWN", 2)
    view = view_of()
    view.take([record("a", 1, "e"), record("a", 3), record("b", 4), record("a", 2, "e"), record("a", 3)])
    assert dict(view) == {}
    assert view.ignored == {"older epoch": 1}
    view.take([record("b", 5, "e"), record("b", 4), record("b", 6)])
    assert view.ignored == {"older epoch": 2}
    view.take([record("c", 7), record("a", 2, "e")])
    assert set(view) == {"a"}, "it is long ago"


def test_what_concerns_a_client_has_room_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 3)
    view = view_of("own.1", "own.2", "own.3", "own.4")
    view.take([record("own.1", 1, "e"), record("a", 2, "e"), record("b", 3, "e")])
    assert view.take([record("own.2", 4, "e")]) == [record("a", 2), record("own.2", 4, "e")]
    assert view.take([record("c", 5, "e")]) == []
    assert view.take([record("c", 5, "e")], asked=True) == [record("b", 3), record("c", 5, "e")]
    view.take([record("own.3", 6, "e"), record("own.4", 7, "e")])
    assert set(view) == {"own.1", "own.2", "own.3"}
    assert view.ignored == {"no room": 2}
