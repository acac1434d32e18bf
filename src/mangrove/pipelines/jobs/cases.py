"""`cases`: the case base of an allocation problem, one Spark task for each state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from mangrove.control.plans.carrying import carried
from mangrove.errors import InputError
from mangrove.pipelines.output import check_output, output_directory, write_json
from mangrove.planning.policies import case_base
from mangrove.planning.policies.case_base import Case, State
from mangrove.planning.problem.document import read_problem
from mangrove.planning.solvers.registry import SolverName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "cases"


def spread_over(spark: SparkSession) -> case_base.Mapper:
    """A `map` for `case_base.build` that gives each state a task of its own on the cluster."""

    def mapper(compute: Callable[[State], Case], states: Sequence[State]) -> Iterable[Case]:
        def computed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    case = compute(msgspec.json.decode(row["state"], type=State))
                    answer = {"place": [row["place"]], "case": [msgspec.json.encode(case).decode()]}
                    yield pa.RecordBatch.from_pydict(answer)

        rows = [(place, msgspec.json.encode(state).decode()) for place, state in enumerate(states)]
        frame = spark.createDataFrame(rows, "place bigint, state string")
        # By range: hashing would put several states in one partition and leave others empty.
        tasks = frame.repartitionByRange(len(rows), "place")
        answers = tasks.mapInArrow(computed, "place bigint, case string").collect()
        for row in sorted(answers, key=lambda row: row["place"]):
            yield msgspec.json.decode(row["case"], type=Case)

    return mapper


def run(
    spark: SparkSession,
    problem_path: Path,
    output: Path,
    seed: int = 1,
    solver: str = "auto",
    *,
    double: bool = True,
) -> dict[str, Any]:
    """Read a problem, compute all cases, write `cases.json` and `summary.json`."""
    check_output(output, JOB)
    path = problem_path / "problem.json" if problem_path.is_dir() else problem_path
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error}", hint="give the output of `pipeline profile`"
        ) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    read = read_problem(document, str(path))
    bounded = bool((read.problem.constraints.max_risk < 1).all())
    states = case_base.states(read.problem, case_base.LOW_LOADS if bounded else (), double=double)
    name = SolverName(solver)
    base = case_base.build(read.problem, states, seed, name, spread_over(spark))
    infeasible = [
        f"{case.state.kind.value} {', '.join(case.state.failed)} at load {case.state.load:g}: {case.reason}"
        for case in base.cases
        if not case.feasible
    ]
    summary = {
        "cases": len(base.cases),
        "infeasible": infeasible,
        "least_joint_ok": min(case.joint_ok for case in base.cases),
        "seed": seed,
        "warnings": list(read.warnings),
    }
    with output_directory(output, JOB) as directory:
        write_json(
            directory / "cases.json",
            {
                **case_base.case_base_document(base),
                **carried(document, read.problem, made_at=time.time(), source=f"pipeline {JOB} {path}"),
            },
        )
        write_json(directory / "summary.json", summary)
    return summary
