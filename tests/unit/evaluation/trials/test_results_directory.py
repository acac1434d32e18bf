"""Results on disk: what was finished is not played again, nothing is half-written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mangrove.errors import InputError, MangroveError
from mangrove.evaluation.trials import results_directory as module
from mangrove.evaluation.trials.campaign import play
from mangrove.evaluation.trials.experiment import MAIN, Experiment, Played, Task
from mangrove.evaluation.trials.results_directory import MANIFEST, results_directory
from mangrove.evaluation.trials.runner import LocalRunner, Play


def square(factor: int, seed: int) -> int:
    if seed == 13:
        raise ValueError("unlucky")
    return factor * seed * seed


def squares(factor: int = 1, name: str = "squares") -> Experiment[int, int]:
    return Experiment(name, square, {MAIN: factor}, int)


class Counting(LocalRunner):
    """Remembers what it played, and is interrupted after some."""

    def __init__(self, stop_after: int = 10**9) -> None:
        super().__init__()
        self.played: list[int] = []
        self.stop_after = stop_after

    def run(self, play: Play, groups: Sequence[Sequence[Task]], take: Callable[[Played], None]) -> None:
        def counted(one: Played) -> None:
            if len(self.played) == self.stop_after:
                raise KeyboardInterrupt
            self.played.append(one.task.seed)
            take(one)

        super().run(play, groups, counted)


def run(path: Path, seeds: range, runner: LocalRunner, experiment: Experiment[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    with results_directory(path, experiment) as directory:
        tasks = experiment.tasks(seeds)
        play(experiment, tasks, runner, lambda task, result: found.update({task.seed: result}), directory)
    return found


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = Counting(stop_after=7)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, range(1, 11), first, squares())
    second = Counting()
    assert run(tmp_path, range(1, 13), second, squares()) == {seed: seed * seed for seed in range(1, 13)}
    assert len(first.played) == 7
    assert sorted(first.played + second.played) == list(range(1, 13))
    third = Counting()
    assert run(tmp_path, range(3, 6), third, squares()) == {3: 9, 4: 16, 5: 25}
    assert third.played == []


def test_rows_say_what_they_are_of(tmp_path: Path) -> None:
    run(tmp_path, range(1, 4), LocalRunner(), squares())
    rows = [row for file in tmp_path.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert {(row["experiment"], row["setting"], row["settings_hash"]) for row in rows} == {
        ("squares", MAIN, squares().identities[MAIN])
    }
    assert sorted((row["seed"], row["result"]) for row in rows) == [(1, "1"), (2, "4"), (3, "9")]


def test_a_trial_that_failed_is_played_again(tmp_path: Path) -> None:
    assert 13 not in run(tmp_path, range(12, 15), LocalRunner(), squares())
    again = Counting()
    run(tmp_path, range(12, 15), again, squares())
    assert again.played == [13]


def test_results_are_written_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 4)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, range(1, 11), Counting(stop_after=9), squares())
    sizes = [pq.read_metadata(file).num_rows for file in sorted(tmp_path.glob("*.parquet"))]
    assert sizes == [4, 4, 1]
    assert not list(tmp_path.glob(".*.part"))


def test_what_is_half_written_or_damaged_does_not_count(tmp_path: Path) -> None:
    run(tmp_path, range(1, 4), LocalRunner(), squares())
    run(tmp_path, range(4, 6), LocalRunner(), squares())
    whole = tmp_path / "trials-000001.parquet"
    (tmp_path / ".trials-000003.parquet.part").write_bytes(whole.read_bytes()[:100])
    whole.write_bytes(whole.read_bytes()[:200])
    with results_directory(tmp_path, squares()) as directory:
        assert {task.seed for task in directory.found} == {4, 5}
        assert [line.partition(":")[0] for line in directory.damaged] == ["trials-000001.parquet"]
    again = Counting()
    assert run(tmp_path, range(1, 6), again, squares()) == {seed: seed * seed for seed in range(1, 6)}
    assert sorted(again.played) == [1, 2, 3]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (squares(2), "results of other settings (main)"),
        (squares(name="cubes"), "results of squares, not cubes"),
        (Experiment("squares", square, {MAIN: 1, "more": 2}, int), "results of other settings (more)"),
    ],
)
def test_a_directory_of_something_else_is_refused(
    other: Experiment[int, int], words: str, tmp_path: Path
) -> None:
    run(tmp_path, range(1, 4), LocalRunner(), squares())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError) as error:
        run(tmp_path, range(1, 4), LocalRunner(), other)
    assert words in str(error.value)
    assert "another directory" in str(error.value.hint)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_another_version_is_refused(tmp_path: Path) -> None:
    run(tmp_path, range(1, 4), LocalRunner(), squares())
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, "version": "0.0.9"}))
    with pytest.raises(InputError, match=r"results of version 0\.0\.9"):
        run(tmp_path, range(1, 4), LocalRunner(), squares())
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(InputError, match="cannot read"):
        run(tmp_path, range(1, 4), LocalRunner(), squares())


def test_what_others_keep_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files, such as thesis\.tex"):
        run(tmp_path, range(1, 4), LocalRunner(), squares())
    with pytest.raises(InputError, match="cannot make"):
        run(tmp_path / "thesis.tex", range(1, 4), LocalRunner(), squares())


def test_two_runs_do_not_write_at_a_time(tmp_path: Path) -> None:
    with results_directory(tmp_path, squares()), pytest.raises(InputError, match="another run is writing"):
        run(tmp_path, range(1, 4), LocalRunner(), squares())


def test_results_of_other_code_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, range(1, 4), LocalRunner(), squares())
    monkeypatch.setattr(module, "code_digest", lambda: "another")
    run(tmp_path, range(4, 6), LocalRunner(), squares())
    with results_directory(tmp_path, squares()) as directory:
        assert len(directory.codes) == 2


def test_results_that_the_disk_refused_are_kept_until_it_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 4)
    write, refusals = pq.write_table, [OSError(28, "No space left on device")]

    def full_at_first(*args: object, **how: object) -> None:
        if refusals:
            raise refusals.pop()
        write(*args, **how)

    monkeypatch.setattr(pq, "write_table", full_at_first)
    with pytest.raises(MangroveError, match=f"^--results: 4 results cannot be written to {tmp_path}") as told:
        run(tmp_path, range(1, 11), LocalRunner(), squares())
    assert "there is room" in told.value.hint
    with results_directory(tmp_path, squares()) as directory:
        assert len(directory.found) == 4, "written at the end, when there was room"
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("step", ["open", "iterdir"])
def test_a_directory_of_somebody_else_is_refused_in_words(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, step, refuse)
    with pytest.raises(InputError, match=rf"^--results: .*{tmp_path}.*: Permission denied") as refused:
        run(tmp_path, range(1, 4), LocalRunner(), squares())
    assert "may write" in refused.value.hint
