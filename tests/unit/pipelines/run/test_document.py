"""Pipeline files: everything that is wrong is said at once, with its place."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError, InvalidDocumentError
from mangrove.pipelines.run.document import Job, Pipeline, Use, read_pipeline


def odd_peak(values: Mapping[str, object]) -> str:
    return "--peak: no such peak" if values.get("peak") == "odd" else ""


JOBS = {
    "profile": Job("profile", frozenset({"peak", "model", "groups"}), frozenset({"model"}), problem=odd_peak),
    "slo": Job("slo", frozenset({"target"})),
    "plan allocate": Job("plan allocate", frozenset({"seed"}), input="problem", input_file="problem.json"),
    "synthetic": Job("synthetic", frozenset({"topics"}), input=""),
}


def read(document: object, directory: Path) -> Pipeline:
    return read_pipeline(document, directory / "night.yaml", JOBS)


def mistakes(document: object, directory: Path) -> dict[str, str]:
    with pytest.raises(InvalidDocumentError) as found:
        read(document, directory)
    return {mistake.path: str(mistake) for mistake in found.value.mistakes}


def test_steps_run_after_what_they_read_from_and_otherwise_as_written(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    pipeline = read(
        {
            "output": "out",
            "input": "lake",
            "retries": 4,
            "steps": [
                {"name": "plan", "job": "plan allocate", "from": "figures", "options": {"seed": 3}},
                {"name": "slo", "job": "slo", "time_limit_s": 60},
                {
                    "name": "figures",
                    "job": "profile",
                    "from": {"model": "slo/model.json"},
                    "options": {"peak": "all"},
                    "retries": 0,
                },
            ],
        },
        tmp_path,
    )
    assert pipeline.name == "night"
    assert [step.name for step in pipeline.steps] == ["slo", "figures", "plan"]
    slo, figures, plan = pipeline.steps
    assert (slo.retries, slo.time_limit_s, figures.retries) == (4, 60, 0)
    assert pipeline.arguments(figures, JOBS["profile"]) == {
        "peak": "all",
        "model": str(tmp_path / "out" / "slo" / "model.json"),
        "input": str(tmp_path / "lake"),
    }
    assert plan.uses == {"problem": Use("figures", "problem.json")}
    assert pipeline.arguments(plan, JOBS["plan allocate"]) == {
        "seed": 3,
        "problem": str(tmp_path / "out" / "figures" / "problem.json"),
    }


def test_paths_start_where_the_file_is_and_urls_stay(tmp_path: Path) -> None:
    steps = [{"job": "profile", "input": "s3://bucket/lake", "options": {"model": "m.json"}}]
    pipeline = read({"output": "out", "steps": steps}, tmp_path)
    assert pipeline.arguments(pipeline.steps[0], JOBS["profile"]) == {
        "input": "s3://bucket/lake",
        "model": str(tmp_path / "m.json"),
    }


def test_every_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "out" / "mine").mkdir(parents=True)
    (tmp_path / "out" / "mine" / "letter.txt").touch()
    found = mistakes(
        {
            "outputs": "x",
            "output": "out",
            "steps": [
                {"name": "a", "job": "profil"},
                {"name": "b", "job": "profile", "input": "nowhere"},
                {"name": "c", "job": "slo", "input": "lake", "options": {"targets": 1}},
                {"name": "d", "job": "plan allocate", "from": "z"},
                {"name": "e", "job": "profile", "from": "f"},
                {"name": "f", "job": "profile", "from": "e"},
                {"name": "c", "job": "slo", "input": "lake"},
                {"name": "../g", "job": "slo", "input": "lake", "retries": 100},
                {"name": "mine", "job": "slo", "input": "lake", "time_limit_s": float("nan")},
                {"name": "ours", "job": "profile", "input": "lake", "options": {"peak": "odd"}},
                {"name": "report", "job": "slo", "input": 3},
                {"name": "out", "job": "profile", "from": {"input": "c/../../secret"}},
                7,
            ],
        },
        tmp_path,
    )
    assert set(found) == {
        "outputs",
        "steps[0].job",
        "steps[1].input",
        "steps[2].options.targets",
        "steps[3].from",
        "steps[4].from",
        "steps[6].name",
        "steps[7].name",
        "steps[7].retries",
        "steps[8].time_limit_s",
        "steps[9].options",
        "steps[10].name",
        "steps[10].input",
        "steps[11].from.input",
        "steps[12]",
    }
    assert "plan allocate, profile, slo, synthetic" in found["steps[0].job"]
    assert "these steps wait for each other: e, f" in found["steps[4].from"]
    assert "no such peak" in found["steps[9].options"]


def test_what_is_not_ours_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "out" / "slo").mkdir(parents=True)
    (tmp_path / "out" / "slo" / "letter.txt").touch()
    found = mistakes({"output": "out", "steps": [{"job": "slo", "input": "lake"}]}, tmp_path)
    assert "did not write" in found["steps[0].name"]


@pytest.mark.parametrize("document", [None, [], "x", {}, {"steps": []}, {"steps": {}, "output": 3}])
def test_what_is_no_pipeline_is_refused(document: object, tmp_path: Path) -> None:
    assert mistakes(document, tmp_path)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["pipeline", "output", "input", "steps", "name", "job", "from", "options", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(document=json_like, steps=st.lists(json_like, max_size=3))
def test_no_document_breaks_the_reader(document: object, steps: list[object]) -> None:
    whole = {**document, "steps": steps} if isinstance(document, dict) else document
    with contextlib.suppress(InputError):
        read(whole, Path("/nowhere"))
