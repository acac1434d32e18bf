"""Outputs of one job beside each other, those of earlier runs, and such as cannot be shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.kit.job_outputs import Elements, marked, plan_file, profile_output

from mangrove.pipelines.jobs import report


def titles(page: Path) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", (page / "report.html").read_text())


def step(directory: Path, job: str, output: Path | None) -> dict[str, Any]:
    return {"step": directory.name, "job": job, "output": "" if output is None else str(output)} | {
        "outcome": "failed" if output is None else "done",
        "seconds": 1.0,
        "tries": 1,
        "message": "",
    }


def test_each_output_of_a_job_has_its_section(tmp_path: Path) -> None:
    profile_output(tmp_path / "out" / "east", ["a", "b"])
    profile_output(tmp_path / "out" / "west", ["c", "d"])
    summary = report.run(tmp_path / "out", tmp_path / "page")
    assert summary["jobs"] == ["profile"]
    assert titles(tmp_path / "page") == ["Workload: east", "Workload: west"]
    elements = Elements((tmp_path / "page" / "report.html").read_text()).found
    pictures = [attributes["data-matrix"] for tag, attributes in elements if tag == "canvas"]
    assert len(set(pictures)) == 2
    identities = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert set(pictures) <= set(identities)
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("own", ["east", "west"])
def test_a_plan_is_shown_with_the_problem_that_it_is_for(own: str, tmp_path: Path) -> None:
    topics = {"east": ["a", "b"], "west": ["c", "d"]}
    for name, each in topics.items():
        profile_output(tmp_path / "out" / name, each)
    allocation = {"<b>one</b>": topics[own], "two": []}
    plan = plan_file(tmp_path / "plan.json", allocation, 0.1)
    report.run(tmp_path / "out", tmp_path / "page", plan)
    assert "30 ± 2.828 of 200 messages/s" in (tmp_path / "page" / "report.html").read_text()


def test_of_a_run_only_what_its_steps_wrote_is_shown(tmp_path: Path) -> None:
    out = tmp_path / "out"
    profile_output(out / "profile", ["a", "b"])
    availability = marked(out / "availability", "availability", {"rows": []})
    old = marked(out / "old", "availability", {"rows": []})
    steps = [step(out / "profile", "profile", None), step(availability, "availability", availability)]
    run_of = {"pipeline": "night", "steps": steps}
    summary = report.run(out, tmp_path / "page", run_of=run_of)
    assert summary["jobs"] == ["availability"]
    assert "profile" in summary["missing"]
    assert titles(tmp_path / "page") == ["Run", "Availability"]
    assert report.find_results(out)["availability"] == [availability, old]


def test_what_cannot_be_shown_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    out = tmp_path / "out"
    profile_output(out / "profile", ["a", "b"])
    (out / "profile" / "covariance.npy").write_bytes(b"")
    marked(out / "risk", "risk", {"windows": 3})
    marked(out / "availability", "availability", {"rows": []})
    marked(out / "plan", "plan allocate", {})
    summary = report.run(out, tmp_path / "page")
    assert [each["path"] for each in summary["skipped"]] == [
        str(out / name) for name in ("plan", "profile", "risk")
    ]
    assert all("cannot be shown" in each["reason"] for each in summary["skipped"])
    assert titles(tmp_path / "page") == ["Plan allocate", "Profile", "Availability", "Risk"]
