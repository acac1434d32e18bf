"""Plans are found where pipelines leave them: each once, and again when it has changed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mangrove.agent.serving import plan_directory
from mangrove.agent.serving.plan_directory import PlanDirectory
from mangrove.control.stimuli import PlanFound, Stimulus
from mangrove.model.plans.rules import PlanPolicy, PlanRules


class Finder:
    def __init__(self, directory: Path, policy: PlanPolicy = PlanPolicy.PROPOSE) -> None:
        self.told: list[Stimulus] = []
        self.term = 1
        self.refused: Counter[str] = Counter()
        rules = PlanRules(policy=policy, directory=str(directory))
        self.finder = PlanDirectory(rules, self.told.append, lambda: self.term, self.refused)

    async def looked(self) -> list[Stimulus]:
        await self.finder.look()
        told = list(self.told)
        self.told.clear()
        return told


async def test_each_plan_is_told_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    found = Finder(tmp_path)
    assert await found.looked() == []
    (tmp_path / "a.json").write_bytes(b'{"half')
    (tmp_path / "note.txt").write_bytes(b"no plan")
    (tmp_path / ".hidden.json").write_bytes(b"no plan")
    (tmp_path / "folder.json").mkdir()
    assert await found.looked() == [PlanFound("a.json", b'{"half')]
    assert await found.looked() == []
    (tmp_path / "a.json").write_bytes(b'{"half": 1}')
    assert await found.looked() == [PlanFound("a.json", b'{"half": 1}')]
    (tmp_path / "a.json").unlink()
    assert await found.looked() == []


async def test_a_new_leader_is_told_of_everything(tmp_path: Path) -> None:
    found = Finder(tmp_path)
    (tmp_path / "a.json").write_bytes(b"1")
    found.term = 0
    assert await found.looked() == []
    found.term = 2
    assert await found.looked() == [PlanFound("a.json", b"1")]
    found.term = 3
    assert await found.looked() == [PlanFound("a.json", b"1")]


async def test_a_directory_that_is_not_there_and_a_file_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await Finder(tmp_path / "nowhere").looked() == []
    monkeypatch.setattr(plan_directory, "MAX_DOCUMENT_BYTES", 3)
    found = Finder(tmp_path)
    (tmp_path / "a.json").write_bytes(b"1234")
    assert await found.looked() == []
    assert await found.looked() == []
    assert found.refused == {"plans that are too large": 1}


async def test_nobody_looks_where_plans_are_applied_by_hand(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"1")
    found = Finder(tmp_path, PlanPolicy.MANUAL)
    await found.finder.run()
    assert found.told == []
