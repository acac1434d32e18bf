"""`mangrove bench NAME`: run a benchmark, of the source checkout or as it came with the package.

A benchmark is a module `benchmarks/NAME.py` with

- a docstring whose first line says what is compared;
- `run(seed: int, quick: bool) -> dict[str, object]`: measure and return plain data;
- `render(result, console) -> None`: show the result to people;
- `missed(result) -> list[str]`: the bars that were not reached, in words; empty when all were.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import EXIT_NEGATIVE, InputError

# The folder at the top of a checkout; built as a wheel, it is a folder of the package.
PLACES = tuple(Path(__file__).resolve().parents[up] / "benchmarks" for up in (4, 2))


def bench(
    name: Annotated[
        str, typer.Argument(help="Benchmark to run; `list` names them, `all` runs them.")
    ] = "list",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller load, for a first look.")] = False,
    before: Annotated[
        Path | None, typer.Option(help="A checkout of an earlier state, measured in the same run.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a benchmark; each prints a ratio measured in one run."""
    files = _files()
    if name == "list":
        _list(files, as_json)
        return
    if name not in (*files, "all"):
        raise InputError(
            f"there is no benchmark {name!r}", hint=f"choose one of: {', '.join(files) or '(none found)'}"
        )
    chosen = files.values() if name == "all" else [files[name]]
    documents = [_run(path, seed, quick, before, as_json) for path in chosen]
    if as_json:
        print_json(documents if name == "all" else documents[0])
    if any(document["missed"] for document in documents):
        raise typer.Exit(EXIT_NEGATIVE)


def _run(path: Path, seed: int, quick: bool, before: Path | None, as_json: bool) -> dict[str, object]:
    module = _load(path)
    more = {}
    if before is not None:
        if "before" not in inspect.signature(module.run).parameters:
            raise InputError(f"--before: {path.stem} compares with nothing earlier", hint="leave it out")
        if not (before / "src" / "mangrove").is_dir():
            raise InputError(f"--before: {before} is no checkout", hint="a directory with src/mangrove")
        more["before"] = before.resolve()
    result: dict[str, object] = module.run(seed=seed, quick=quick, **more)
    missed: list[str] = module.missed(result)
    if not as_json:
        module.render(result, stdout_console())
    for line in missed:
        stderr_console().print(f"[red]missed:[/red] {line}")
    return {"benchmark": path.stem, "seed": seed, **result, "missed": missed}


def _files() -> dict[str, Path]:
    folder = next((place for place in PLACES if place.is_dir()), None)
    if folder is None:
        raise InputError(
            f"the benchmarks are missing: there is no {PLACES[-1]}", hint="install the package again"
        )
    return {path.stem: path for path in sorted(folder.glob("[a-z]*.py"))}


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"mangrove_benchmarks_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _list(files: dict[str, Path], as_json: bool) -> None:
    """First lines of the docstrings; nothing is imported, some benchmarks need libraries of an extra."""
    from mangrove.cli.tables.table import Table, details_column, word_column

    summaries = {}
    for name, path in files.items():
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        summaries[name] = docstring.partition("\n")[0]
    if as_json:
        print_json(summaries)
        return
    table = Table("", word_column("benchmark"), details_column("what is compared"))
    for name, summary in summaries.items():
        table.add(name, summary)
    table.show(stdout_console())
