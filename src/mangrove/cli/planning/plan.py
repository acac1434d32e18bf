"""`mangrove plan`: put topics on brokers by the probability of overload, and plans in force."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.planning import in_force
from mangrove.cli.planning.scenarios import RiskKind, RiskKindOption, ScenariosOption, with_risk
from mangrove.errors import (
    EXIT_NEGATIVE,
    InputError,
    InvalidDocumentError,
    MangroveError,
    Mistake,
    Mistakes,
)

if TYPE_CHECKING:
    from mangrove.planning.judgement.result import Result
    from mangrove.planning.problem.problem import Problem
    from mangrove.planning.solvers.stop import Progress as SolveProgress
    from mangrove.planning.solvers.stop import Stop

app = typer.Typer(help="Plan which broker carries which topics; put plans in force.", no_args_is_help=True)


class Solver(str, Enum):  # noqa: UP042 - typer shows the values of a str enum
    """Names of `mangrove.planning.solvers.registry`; kept here so that `--help` need not load them."""

    AUTO = "auto"
    EXACT = "exact"
    GENETIC = "genetic"
    SEARCH = "search"
    ROUND_ROBIN = "round-robin"
    CYCLIC = "cyclic"


ProblemArgument = Annotated[Path, typer.Argument(help="Problem file (JSON); `-` reads standard input.")]
SolverOption = Annotated[
    Solver, typer.Option(help="auto: exact for few items, else search. The answer says which one it was.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
TimeOption = Annotated[
    float | None,
    typer.Option("--time-limit", min=0.0, help="Seconds after which the best so far is returned."),
]
RiskOption = Annotated[
    float | None, typer.Option("--max-risk", help="Bound on each broker's risk; replaces the file's.")
]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(help="joint, constant-penalty or excess-penalty; replaces the file's."),
]
RepairOption = Annotated[
    bool,
    typer.Option("--repair-covariance", help="Replace an invalid covariance by the nearest valid one."),
]


@app.command()
def allocate(
    problem: ProblemArgument,
    solver: SolverOption = Solver.AUTO,
    seed: SeedOption = 1,
    time_limit: TimeOption = None,
    max_risk: RiskOption = None,
    objective: ObjectiveOption = None,
    repair_covariance: RepairOption = False,
    risk: RiskKindOption = RiskKind.NORMAL,
    scenarios: ScenariosOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allocate items to brokers so that overload is least likely."""
    from mangrove.cli.planning.tables import show_allocation
    from mangrove.planning.judgement.answer import answer

    read, warnings, carried = _Request(problem, max_risk, objective, repair_covariance).read("allocate")
    read = with_risk(read, risk, problem, scenarios)
    started = time.monotonic()
    with _watched(time_limit, started) as stop:
        result = _solve(read, solver, stop, seed)
    seconds = time.monotonic() - started
    baseline = _baseline(read)
    if as_json:
        document = answer(result, seconds=seconds, warnings=warnings)
        _add_baseline(document, result, baseline)
        print_json({**document, **carried})
    else:
        _warn(warnings + result.warnings)
        show_allocation(result, baseline, seconds, stdout_console())
    if not result.feasible:
        raise typer.Exit(EXIT_NEGATIVE)


@app.command()
def mirror(
    problem: ProblemArgument,
    allocation: Annotated[
        Path | None, typer.Option(help="Answer of `plan allocate --json` to mirror; computed when absent.")
    ] = None,
    solver: SolverOption = Solver.AUTO,
    seed: SeedOption = 1,
    time_limit: TimeOption = None,
    max_risk: RiskOption = None,
    objective: ObjectiveOption = None,
    repair_covariance: RepairOption = False,
    as_json: JsonOption = False,
) -> None:
    """Choose mirrors for the items that ask, and say what each failure then means."""
    from mangrove.cli.planning.tables import show_allocation, show_mirrors
    from mangrove.planning.judgement.answer import answer
    from mangrove.planning.policies.mirroring import mirror as plan_mirrors
    from mangrove.planning.policies.mirroring import mirror_document
    from mangrove.planning.solvers.registry import SolverName

    read, warnings, carried = _Request(problem, max_risk, objective, repair_covariance).read("mirror")
    started = time.monotonic()
    given = None if allocation is None else _read_allocation(allocation, read)
    with _watched(time_limit, started) as stop:
        plan = plan_mirrors(read, given, stop, seed, SolverName(solver.value))
    seconds = time.monotonic() - started
    primary = plan.placement.alone if given is None else None
    if as_json:
        document = mirror_document(plan, seconds=seconds)
        if primary is not None:
            document["primary"] = answer(primary, seconds=seconds)
        print_json({**document, **carried, "seed": seed, "warnings": list(warnings)})
    else:
        _warn(warnings)
        if primary is not None:
            show_allocation(primary, _baseline(read), seconds, stdout_console())
        show_mirrors(plan, stdout_console())
        for reason in plan.reasons:
            stdout_console().print(f"[red]infeasible[/red] {reason}")
    if plan.reasons or (primary is not None and not primary.feasible):
        raise typer.Exit(EXIT_NEGATIVE)


@app.command()
def cases(
    problem: ProblemArgument,
    low_load: Annotated[
        list[float] | None,
        typer.Option("--low-load", help="Share of the load at which to switch brokers off."),
    ] = None,
    double: Annotated[bool, typer.Option(help="Also every pair of failed brokers.")] = True,
    stay: Annotated[
        bool,
        typer.Option(help="After a failure, items on working brokers stay there unless a bound would break."),
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes to spread the cases over.")] = 1,
    output: Annotated[Path | None, typer.Option(help="Write the case base to this file.")] = None,
    solver: SolverOption = Solver.AUTO,
    seed: SeedOption = 1,
    time_limit: TimeOption = None,
    max_risk: RiskOption = None,
    objective: ObjectiveOption = None,
    repair_covariance: RepairOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute policies, with mirrors, for the normal state, failures of brokers and hosts, and low load."""
    from mangrove.cli.planning.tables import show_cases
    from mangrove.planning.policies import case_base
    from mangrove.planning.solvers.registry import SolverName
    from mangrove.planning.solvers.stop import Never, TimeLimit

    read, warnings, carried = _Request(problem, max_risk, objective, repair_covariance).read("cases")
    loads = _low_loads(low_load, read)
    if not loads:
        warnings += ("no constraints.max_risk: low-load cases are left out, nothing says how few brokers do",)
    states = case_base.states(read, loads, double=double)
    stop = Never() if time_limit is None else TimeLimit(time.monotonic, time.monotonic() + time_limit)
    with _case_mapper(workers, len(states)) as mapper:
        base = case_base.build(read, states, seed, SolverName(solver.value), mapper, stop, stay=stay)
    if output is not None:
        written = json.dumps({**case_base.case_base_document(base), **carried})
        output.write_text(written + "\n", encoding="utf-8")
    broken = [case.state for case in base.cases if not case.feasible]
    if as_json:
        document = {
            **case_base.case_base_document(base),
            **carried,
            "seed": seed,
            "warnings": list(warnings),
        }
        if broken:
            which = "; ".join(f"{s.kind.value} {', '.join(s.failed)} at load {s.load:g}" for s in broken)
            document |= {"infeasible": True, "reason": f"no allocation keeps all constraints in: {which}"}
        print_json(document)
    else:
        _warn(warnings)
        show_cases(base, stdout_console())
        if output is not None:
            stderr_console().print(f"written to {output}")
    if broken:
        raise typer.Exit(EXIT_NEGATIVE)


app.command("apply")(in_force.apply)
app.command("offer")(in_force.offer)
app.command("show")(in_force.show)
app.command("history")(in_force.history)
app.command("rollback")(in_force.rollback)


@dataclass(frozen=True)
class _Request:
    """A problem file with what the command line changes in it."""

    path: Path
    max_risk: float | None
    objective: str | None
    always_repair: bool

    def read(self, command: str) -> tuple[Problem, tuple[str, ...], dict[str, Any]]:
        """The problem, warnings, and what the answer of a command carries so that it can be applied."""
        from mangrove.control.plans.carrying import carried
        from mangrove.planning.problem.document import read_problem

        document = _read_json(self.path)
        if isinstance(document, dict):
            if self.objective is not None:
                document["objective"] = self.objective
            if self.max_risk is not None:
                given = document.get("constraints")
                document["constraints"] = {
                    **(given if isinstance(given, dict) else {}),
                    "max_risk": self.max_risk,
                }
        read = read_problem(document, str(self.path), always_repair=self.always_repair)
        source = f"plan {command} {self.path}"
        return (
            read.problem,
            read.warnings,
            carried(document, read.problem, made_at=time.time(), source=source),
        )


def _read_json(path: Path) -> Any:
    """Read with the standard decoder: it lets NaN through, so that the check can name the field it is in."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def _read_allocation(path: Path, problem: Problem) -> tuple[int, ...]:
    """`allocation` of an answer, checked to be a partition of the problem's items."""
    document = _read_json(path)
    allocation = document.get("allocation") if isinstance(document, dict) else None
    mistakes = Mistakes(str(path))
    if not isinstance(allocation, dict):
        raise InvalidDocumentError(str(path), [Mistake("allocation", "missing", "brokers with their items")])
    where: dict[str, int] = {}
    for broker, items in allocation.items():
        if broker not in problem.brokers:
            mistakes.note(f"allocation.{broker}", f"there is no broker {broker!r}")
            continue
        for item in items if isinstance(items, list) else []:
            if item not in problem.items:
                mistakes.note(f"allocation.{broker}", f"there is no item {item!r}")
            elif item in where:
                mistakes.note(f"allocation.{broker}", f"{item!r} is on two brokers")
            else:
                where[item] = problem.brokers.index(broker)
    for item in problem.items:
        if item not in where:
            mistakes.note("allocation", f"{item!r} is missing")
    mistakes.raise_if_any()
    return tuple(where[item] for item in problem.items)


def _low_loads(given: list[float] | None, problem: Problem) -> list[float]:
    from mangrove.planning.policies import case_base

    for load in given or []:
        if not 0 < load < 1:
            raise InputError(f"--low-load: {load}", hint="a share of the load, above 0 and below 1")
    if not bool((problem.constraints.max_risk < 1).all()):
        return []
    return sorted(set(given)) if given else list(case_base.LOW_LOADS)


def _solve(problem: Problem, solver: Solver, stop: Stop, seed: int) -> Result:
    from mangrove.planning.solvers.registry import SolverName, solve

    return solve(problem, SolverName(solver.value), stop, seed)


def _baseline(problem: Problem) -> Result:
    from mangrove.planning.solvers import round_robin
    from mangrove.planning.solvers.stop import Never

    return round_robin.solve(problem, Never(), 0, round_robin.RoundRobinParams(with_bound=False))


def _add_baseline(document: dict[str, Any], result: Result, baseline: Result) -> None:
    """What round robin would have done, and the share of each broker's risk that is gone."""
    pairs = list(zip(result.problem.brokers, result.assessment.loads, baseline.assessment.loads, strict=True))
    document["round_robin"] = {
        "joint_ok": baseline.assessment.joint_ok,
        "risk": {broker: before.risk for broker, _, before in pairs},
    }
    document["gain"] = {
        broker: (before.risk - load.risk) / before.risk if before.risk > 0 else None
        for broker, load, before in pairs
    }


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        stderr_console().print(f"[yellow]warning:[/yellow] {warning}")


@contextmanager
def _watched(time_limit: float | None, started: float) -> Iterator[Stop]:
    """A stop condition that shows progress on stderr while a solve is long (terminals only)."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = stderr_console()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("solving", total=time_limit)

        def stop(progress: SolveProgress) -> bool:
            elapsed = time.monotonic() - started
            bar.update(task, completed=elapsed, description=f"{progress.solver}: step {progress.step}")
            return time_limit is not None and elapsed >= time_limit

        yield stop


@contextmanager
def _case_mapper(workers: int, total: int) -> Iterator[Any]:
    """`map` over the states, in this process or spread over several, with a progress bar."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    from rich.progress import Progress

    console = stderr_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("cases", total=total)

        def counted(cases: Iterator[Any]) -> Iterator[Any]:
            for case in cases:
                bar.advance(task)
                yield case

        if workers == 1:
            yield lambda compute, states: counted(map(compute, states))
            return
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            try:
                yield lambda compute, states: counted(pool.map(compute, states))
            except BrokenProcessPool as error:
                raise MangroveError(
                    "a process that computed cases ended before its time",
                    hint="it may have been killed for lack of memory; try fewer --workers",
                ) from error
            finally:
                # After Ctrl-C nobody wants the cases that were not begun.
                pool.shutdown(cancel_futures=True)
