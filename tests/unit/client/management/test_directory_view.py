"""What a client keeps of the directory."""

from __future__ import annotations

import pytest

from mangrove.client.management import directory_view as module
from mangrove.client.management.directory_view import DirectoryView
from mangrove.model.agents.directory import DirectoryRecord


def record(topic: str, epoch: int, *edges: str, domain: str = "here") -> DirectoryRecord:
    return DirectoryRecord(topic=topic, domain=domain, epoch=epoch, edges=edges)


def test_the_latest_epoch_counts() -> None:
    view = DirectoryView("here")
    assert view.take([record("a", 2, "e1")]) == [record("a", 2, "e1")]
    assert view.take([record("a", 2, "e1")]) == [], "known already"
    assert view.take([record("a", 1, "e2"), record("a", 3, domain="there")]) == []
    assert view.take([record("a", 4, "e3"), record("b", 1)]) == [record("a", 4, "e3"), record("b", 1)]
    assert dict(view) == {"a": record("a", 4, "e3"), "b": record("b", 1)}
    assert view.ignored == {"older epoch": 1, "other domain": 1}


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 2)
    view = DirectoryView("here")
    view.take([record("a", 1), record("b", 1), record("c", 1), record("a", 2)])
    assert set(view) == {"a", "b"}
    assert view["a"].epoch == 2
    assert view.ignored == {"no room": 1}
