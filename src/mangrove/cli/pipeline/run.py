"""`mangrove pipeline run`: the jobs of a file in order, and one report."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.pipeline.session import report_skipped, session_options, shared_session
from mangrove.errors import EXIT_NEGATIVE, InputError, MangroveError, system_words
from mangrove.pipelines.session.settings import SparkSettings

GOOD = ("done", "unchanged")
RUN_FILE = "run.json"
# What a disk refuses, and what outputs that are not as they were written do to those who read them.
UNTOLD = (MangroveError, OSError, ValueError, LookupError, TypeError)


@session_options
def run(
    file: Annotated[Path, typer.Argument(help="Pipeline file (YAML).")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out steps whose output is whole and inputs unchanged.")
    ] = False,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Run the jobs of a pipeline file in order, with one Spark session and one report."""
    from mangrove.cli.pipeline.run_jobs import CommandExecutor, commands
    from mangrove.pipelines.jobs import report
    from mangrove.pipelines.output import check_output
    from mangrove.pipelines.run.document import read_pipeline
    from mangrove.pipelines.run.runner import run_pipeline
    from mangrove.pipelines.run.session_keeper import SessionKeeper
    from mangrove.pipelines.session.time_limit import time_limit

    known = commands()
    jobs = {name: command.job() for name, command in known.items()}
    pipeline = read_pipeline(_read(file), file, jobs)
    check_output(pipeline.output / report.JOB, report.JOB)
    console = stderr_console()
    began = time.monotonic()
    with console.status(f"pipeline {pipeline.name} …") as status:

        def progress(text: str) -> None:
            status.update(f"{text} …")
            if not console.is_terminal:
                console.print(text, soft_wrap=True, markup=False)

        keeper = SessionKeeper(session, progress)
        try:
            with shared_session(keeper), time_limit(session.time_limit_s, "the run"):
                executor = CommandExecutor(pipeline, known, keeper)
                steps = run_pipeline(pipeline, jobs, executor, resume=resume, progress=progress)
        finally:
            keeper.drop()
    answer = {
        "pipeline": pipeline.name,
        "seconds": round(time.monotonic() - began, 3),
        "sessions": keeper.sessions,
        "steps": [asdict(step) for step in steps],
        "report": str(pipeline.output / report.JOB / "report.html"),
    }
    untold = _tell(pipeline.output, answer)
    if as_json:
        print_json(answer)
    else:
        _show(answer)
    if untold:
        raise MangroveError(
            "; ".join(untold),
            hint="what the steps wrote is there; is there room, and may this user write there? "
            "then run again with --resume",
        )
    if any(step.outcome not in GOOD for step in steps):
        raise typer.Exit(EXIT_NEGATIVE)


def _tell(output: Path, answer: dict[str, Any]) -> list[str]:
    """Write `run.json` and the report; what is not written, and why: the steps are done all the same."""
    untold = []
    for name, write in ((RUN_FILE, _note), ("the report", _report)):
        try:
            write(output, answer)
        except UNTOLD as error:
            words = system_words(error) if isinstance(error, OSError) else str(error)
            untold.append(f"{name} is not written: {words}")
    return untold


def _note(output: Path, answer: dict[str, Any]) -> None:
    from mangrove.pipelines.output import write_json

    output.mkdir(parents=True, exist_ok=True)
    new = output / f".{RUN_FILE}.new"
    try:
        write_json(new, answer)
        new.replace(output / RUN_FILE)
    finally:
        new.unlink(missing_ok=True)


def _report(output: Path, answer: dict[str, Any]) -> None:
    from mangrove.pipelines.jobs import report

    report_skipped(report.run(output, output / report.JOB, run_of=answer))


def _read(path: Path) -> object:
    from mangrove.config.yaml_text import read_yaml
    from mangrove.errors import InvalidDocumentError

    try:
        document, mistakes = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", hint="give a pipeline file in YAML") from error
    if mistakes:
        raise InvalidDocumentError(str(path), mistakes)
    return document


def _show(answer: dict[str, Any]) -> None:
    from mangrove.cli.tables.table import (
        USEFUL,
        Table,
        bad,
        details_column,
        good,
        name_column,
        number_column,
        word_column,
    )

    table = Table(
        f"pipeline {answer['pipeline']}",
        name_column("step"),
        name_column("job", USEFUL),
        word_column("outcome"),
        number_column("seconds"),
        number_column("tries", USEFUL),
        details_column("message"),
    )
    for step in answer["steps"]:
        shown = good if step["outcome"] in GOOD else bad
        message = ". ".join(text for text in (step["message"], step["hint"]) if text)
        seconds, tries = f"{step['seconds']:.1f}", str(step["tries"])
        table.add(step["step"], step["job"], shown(step["outcome"]), seconds, tries, message)
    console = stdout_console()
    table.show(console)
    console.print(f"{answer['seconds']:.1f} s; report: {answer['report']}", soft_wrap=True, markup=False)
