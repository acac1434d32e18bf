"""`report`: one HTML page of what the other jobs found. No network is needed to read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mangrove.errors import InputError
from mangrove.pipelines.output import MARKER, UNFINISHED, output_directory
from mangrove.pipelines.report.page import Section, page, text
from mangrove.pipelines.report.plans import PLAN_FILE, Plan, plan_section, read_plan
from mangrove.pipelines.report.sections import MORE, SECTIONS, any_job, run_steps

JOB = "report"
PLAN_JOB = "plan allocate"
# Outputs that are not shown: pages, lakes, and plans that have no section.
NOT_SHOWN = {JOB, "plan mirror", "synthetic"}
# What files that are damaged, or of another release, do to those who read them.
UNREADABLE = (InputError, OSError, ValueError, LookupError, TypeError, AttributeError, EOFError)


def run(
    results: Path,
    output: Path,
    plan: Path | None = None,
    before: Path | None = None,
    *,
    run_of: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Find the jobs' outputs under `results` and write `report.html`; what cannot be shown is named.

    `plan` and `before` are answers of `plan allocate`; `run_of`: what `pipeline run` says of its steps, whose
    outputs alone are shown.
    """
    found = find_results(results, run_of)
    if not found and run_of is None and plan is None:
        raise InputError(
            f"{results} holds no output of a job",
            hint="run the jobs with outputs under one directory, e.g. out/profile, out/slo, then --input out",
        )
    if before is not None and plan is None and PLAN_JOB not in found:
        raise InputError("--before goes with --plan", hint="give the plan of now, too")
    jobs = sorted(name for name in found if name not in {*NOT_SHOWN, PLAN_JOB})
    earlier = None if before is None else read_plan(before)
    if plan is not None:
        read_plan(plan)
        found[PLAN_JOB] = [plan]

    def planned(place: Path) -> Section:
        now = read_plan(place / PLAN_FILE if place.is_dir() else place)
        problem = None if now is None else _problem(found.get("profile", ()), now)
        return plan_section(now, earlier, problem)

    known: dict[str, Callable[[Path], Section]] = {PLAN_JOB: planned} | SECTIONS | MORE
    sections: list[Section] = [] if run_of is None else [run_steps(run_of)]
    skipped: list[dict[str, Any]] = []
    for name in dict.fromkeys((*known, *jobs)):
        sections += _sections(known.get(name, any_job(name)), name, found.get(name, ()), skipped)
    missing = [name for name in SECTIONS if name not in found]
    subtitle = f"not run: {', '.join(missing)}" if missing else ""
    title = results.resolve().name if run_of is None else str(run_of["pipeline"])
    with output_directory(output, JOB) as directory:
        (directory / "report.html").write_text(page(title, subtitle, sections), encoding="utf-8")
    return {"page": str(output / "report.html"), "jobs": jobs, "missing": missing, "skipped": skipped}


def find_results(results: Path, run_of: Mapping[str, Any] | None = None) -> dict[str, list[Path]]:
    """Output directories by job, from the mark that each job leaves; of a run, those that it vouches for."""
    if not results.is_dir():
        raise InputError(f"{results} is not a directory")
    if run_of is None:
        below = sorted(mark.parent for mark in results.glob(f"*/{MARKER}"))
        places = [results, *(each for each in below if UNFINISHED not in each.name)]
    else:
        places = [Path(step["output"]) for step in run_of["steps"] if step["output"]]
    found: dict[str, list[Path]] = {}
    for place in places:
        if (place / MARKER).is_file():
            found.setdefault((place / MARKER).read_text().strip(), []).append(place)
    return found


def _sections(
    section: Callable[[Path], Section], job: str, places: Sequence[Path], skipped: list[dict[str, Any]]
) -> list[Section]:
    """What the outputs of a job look like, with their names if there are several."""
    made = []
    for place in places:
        try:
            one = section(place)
        except UNREADABLE as error:
            reason = f"cannot be shown, being damaged or of another release: {error}"
            skipped.append({"path": str(place), "rows": None, "reason": reason})
            one = Section(job.capitalize(), f'<p class="bad">{text(place.name)} {text(reason)}</p>')
        made.append(one if len(places) == 1 else replace(one, title=f"{one.title}: {place.resolve().name}"))
    return made


def _problem(profiles: Sequence[Path], plan: Plan) -> Mapping[str, Any] | None:
    """The problem that the plan is for, if the profile that made it is here: it has its items and brokers."""
    items = {item for of_broker in plan.allocation.values() for item in of_broker}
    for directory in profiles:
        if not (path := directory / "problem.json").is_file():
            continue
        problem: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if items <= set(problem["items"]) and plan.allocation.keys() <= set(problem["brokers"]):
            return problem
    return None
