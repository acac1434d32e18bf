"""`mangrove bench NAME`: run a benchmark of the source checkout.

A benchmark is a module `benchmarks/NAME.py` with

- a docstring whose first line says what is compared;
- `run(seed: int, quick: bool) -> dict[str, object]`: measure and return plain data;
- `render(result, console) -> None`: show the result to people;
- `missed(result) -> list[str]`: the bars that were not reached, in words; empty when all were.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import EXIT_NEGATIVE, InputError

BENCHMARKS = Path(__file__).resolve().parents[4] / "benchmarks"


def bench(
    name: Annotated[
        str, typer.Argument(help="Benchmark to run; `list` names them, `all` runs them.")
    ] = "list",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller load, for a first look.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a benchmark; each prints a ratio measured in one run."""
    names = _names()
    if name == "list":
        _list(names, as_json)
        return
    if name not in (*names, "all"):
        raise InputError(
            f"there is no benchmark {name!r}", hint=f"choose one of: {', '.join(names) or '(none found)'}"
        )
    documents = [_run(each, seed, quick, as_json) for each in (names if name == "all" else [name])]
    if as_json:
        print_json(documents if name == "all" else documents[0])
    if any(document["missed"] for document in documents):
        raise typer.Exit(EXIT_NEGATIVE)


def _run(name: str, seed: int, quick: bool, as_json: bool) -> dict[str, object]:
    module = _load(name)
    result: dict[str, object] = module.run(seed=seed, quick=quick)
    missed: list[str] = module.missed(result)
    if not as_json:
        module.render(result, stdout_console())
    for line in missed:
        stderr_console().print(f"[red]missed:[/red] {line}")
    return {"benchmark": name, "seed": seed, **result, "missed": missed}


def _names() -> list[str]:
    if not BENCHMARKS.is_dir():
        raise InputError(
            "the benchmarks are not installed with the package",
            hint="run `mangrove bench` from a source checkout, after `make setup`",
        )
    return sorted(path.stem for path in BENCHMARKS.glob("[a-z]*.py"))


def _load(name: str) -> ModuleType:
    path = BENCHMARKS / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"mangrove_benchmarks_{name}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _list(names: list[str], as_json: bool) -> None:
    summaries = {name: ((_load(name).__doc__ or "").strip().splitlines() or [""])[0] for name in names}
    if as_json:
        print_json(summaries)
        return
    console = stdout_console()
    for name, summary in summaries.items():
        console.print(f"[bold]{name:<12}[/bold] {summary}")
