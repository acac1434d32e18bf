"""`report`: one HTML page of what the other jobs found. No network is needed to read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mangrove.errors import InputError
from mangrove.pipelines.output import MARKER, output_directory
from mangrove.pipelines.report.page import Section, page
from mangrove.pipelines.report.plans import PLAN_FILE, plan_section, read_plan
from mangrove.pipelines.report.sections import MORE, SECTIONS, any_job, run_steps

JOB = "report"
PLAN_JOB = "plan allocate"
# Outputs that are not shown: pages, lakes, and plans, which have a section of their own.
NOT_SHOWN = {JOB, PLAN_JOB, "plan mirror", "synthetic"}


def run(
    results: Path,
    output: Path,
    plan: Path | None = None,
    before: Path | None = None,
    *,
    run_of: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Find the jobs' outputs under `results` and write `report.html`.

    `plan` and `before` are answers of `plan allocate`; `run_of`: what `pipeline run` says of its steps.
    """
    found = find_results(results)
    plan = plan or _planned(found)
    if not found and run_of is None and plan is None:
        raise InputError(
            f"{results} holds no output of a job",
            hint="run the jobs with outputs under one directory, e.g. out/profile, out/slo, then --input out",
        )
    sections: list[Section] = [] if run_of is None else [run_steps(run_of)]
    if plan is not None:
        earlier = None if before is None else read_plan(before)
        sections.append(plan_section(read_plan(plan), earlier, _problem(found)))
    elif before is not None:
        raise InputError("--before goes with --plan", hint="give the plan of now, too")
    known = SECTIONS | MORE
    shown = [name for name in (*known, *sorted(found)) if name in found and name not in NOT_SHOWN]
    sections += [known.get(name, any_job(name))(found[name]) for name in dict.fromkeys(shown)]
    missing = [name for name in SECTIONS if name not in found]
    subtitle = f"not run: {', '.join(missing)}" if missing else ""
    name = results.resolve().name if run_of is None else str(run_of["pipeline"])
    with output_directory(output, JOB) as directory:
        (directory / "report.html").write_text(page(name, subtitle, sections), encoding="utf-8")
    jobs = sorted(name for name in found if name not in NOT_SHOWN)
    return {"page": str(output / "report.html"), "jobs": jobs, "missing": missing, "skipped": []}


def find_results(results: Path) -> dict[str, Path]:
    """Output directories by job, from the mark that each job leaves."""
    if not results.is_dir():
        raise InputError(f"{results} is not a directory")
    marks = [results / MARKER, *sorted(results.glob(f"*/{MARKER}"))]
    return {mark.read_text().strip(): mark.parent for mark in marks if mark.is_file()}


def _planned(found: Mapping[str, Path]) -> Path | None:
    directory = found.get(PLAN_JOB)
    return None if directory is None else directory / PLAN_FILE


def _problem(found: Mapping[str, Path]) -> Mapping[str, Any] | None:
    """The problem that the plan is for, if the profile that made it is here."""
    directory = found.get("profile")
    path = None if directory is None else directory / "problem.json"
    if path is None or not path.is_file():
        return None
    problem: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return problem
