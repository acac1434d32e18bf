"""Who does not answer is asked again, until all have answered."""

from __future__ import annotations

import pytest

from mangrove.agent.hosting import rounds


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "APART_S", 0.0)
    monkeypatch.setattr(rounds, "AGAIN_S", 0.0)


async def test_all_are_asked_in_their_order_and_the_silent_ones_again() -> None:
    silences = {"head": 0, "edge1": 2, "edge2": 1}
    asked: list[str] = []

    async def ask(place: str) -> int | None:
        asked.append(place)
        silences[place] -= 1
        return None if silences[place] >= 0 else len(place)

    answers = [answer async for answer in rounds.in_rounds(list(silences), ask)]
    assert asked == ["head", "edge1", "edge2", "edge1", "edge2", "edge1"]
    assert answers == [("head", 4), ("edge2", 5), ("edge1", 5)]


async def test_nobody_is_asked_where_nobody_is() -> None:
    async def ask(place: str) -> int | None:
        raise AssertionError(place)

    nowhere: list[str] = []
    assert [answer async for answer in rounds.in_rounds(nowhere, ask)] == []
