"""A plan to check: where it puts each item, and the problem that it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mangrove.control.plans.figures import figures_problem, problem_of
from mangrove.errors import InputError, Mistakes
from mangrove.model.plans.figures import PlanFigures
from mangrove.pipelines.risk.topic_items import TopicItems, topic_items
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """A problem, the broker of each of its items, and the topics of the items."""

    problem: Problem
    assignment: tuple[int, ...]
    topics: TopicItems
    source: str
    warnings: tuple[str, ...] = ()


def read_plan(path: Path, problem_path: Path | None) -> PlannedLoad:
    """The answer of `plan allocate --json`, with its problem file or the figures that it carries."""
    document = _read_json(path)
    allocation = document.get("allocation")
    if allocation is None and isinstance(document.get("closest"), Mapping):
        allocation = document["closest"].get("allocation")
    if not isinstance(allocation, Mapping):
        raise InputError(
            f"{path}: there is no allocation", hint="give an answer of `mangrove plan allocate --json`"
        )
    warnings: tuple[str, ...] = ()
    origin: Mapping[str, Any] = document
    if problem_path is not None:
        chosen = problem_path / "problem.json" if problem_path.is_dir() else problem_path
        origin = _read_json(chosen)
        read = read_problem(origin, str(chosen))
        problem, warnings = read.problem, read.warnings
    else:
        problem = _carried(document, path)
    assignment = _assignment(allocation, problem, path)
    return PlannedLoad(
        problem, assignment, topic_items(origin, problem.items, str(path)), str(path), warnings
    )


def _carried(document: Mapping[str, Any], path: Path) -> Problem:
    try:
        figures = msgspec.convert(document["figures"], PlanFigures)
        fault = figures_problem(figures)
    except (KeyError, msgspec.ValidationError):
        raise InputError(
            f"{path} does not carry the figures that it was made from", hint="give --problem problem.json"
        ) from None
    if fault:
        raise InputError(f"{path}: figures: {fault}", hint="give --problem problem.json")
    return problem_of(figures)


def _assignment(allocation: Mapping[str, Any], problem: Problem, path: Path) -> tuple[int, ...]:
    mistakes = Mistakes(str(path), hint="is it the answer to this problem?")
    where: dict[str, int] = {}
    for broker, items in allocation.items():
        if broker not in problem.brokers:
            mistakes.note(f"allocation.{broker}", f"there is no broker {broker!r}")
            continue
        for item in items if isinstance(items, list) else []:
            where[str(item)] = problem.brokers.index(broker)
    lacking = [item for item in problem.items if item not in where]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        mistakes.note("allocation", f"{lacking[0]!r}{more} is missing")
    mistakes.raise_if_any()
    return tuple(where[item] for item in problem.items)


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, Mapping):
        raise InputError(
            f"{path}: not a JSON object", hint="give an answer of `mangrove plan allocate --json`"
        )
    return document
