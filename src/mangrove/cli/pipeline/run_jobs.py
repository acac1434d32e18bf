"""Which jobs a pipeline file may name: the commands of `mangrove pipeline` and the planner's, as they are.

A job's options are those of its command, checked by the command's own parser, so that a job which the command
line knows needs nothing more to be part of a pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import typer.exceptions
import typer.main

from mangrove.cli.pipeline.session import SESSION_OPTIONS
from mangrove.errors import MangroveError
from mangrove.pipelines.output import output_directory, write_json
from mangrove.pipelines.run.document import Job, Pipeline, Step
from mangrove.pipelines.run.runner import Answer

if TYPE_CHECKING:
    from mangrove.pipelines.run.session_keeper import SessionKeeper

# The run itself, and what every run does at its end.
NOT_STEPS = ("run", "report")
PLANNING = ("allocate", "mirror")
PROBLEM_FILE = "problem.json"
PLAN_FILE = "plan.json"
# Set by the run, not by a step.
NOT_OPTIONS = frozenset({"json", "help", "output"})


class Command:
    """A command of the command line as a job."""

    def __init__(self, name: str, command: Any) -> None:
        self.name = name
        self._command = command
        self._options = {param.opts[0].lstrip("-"): param for param in command.params if _is_option(param)}
        self._argument = next((p.name for p in command.params if not _is_option(p)), "")
        self.writes_itself = "output" in self._options

    def job(self) -> Job:
        """What a pipeline file must know of it."""
        session = {name.replace("_", "-") for name in SESSION_OPTIONS} if self.writes_itself else set()
        options = frozenset(self._options) - NOT_OPTIONS - session - {"input"}
        main = self._argument or ("input" if "input" in self._options else "")
        return Job(
            name=self.name,
            options=options,
            paths=frozenset(name for name in options if _is_path(self._options[name])),
            input=main,
            input_file=PROBLEM_FILE if self._argument else "",
            problem=self.problem,
        )

    def problem(self, values: Mapping[str, object]) -> str:
        """What the command's parser has against these options."""
        output = Path("output") if self.writes_itself else None
        try:
            self._command.make_context(self.name, self.arguments(values, output)).close()
        except typer.exceptions.TyperException as error:
            return error.format_message().rstrip(".")
        return ""

    def arguments(self, values: Mapping[str, object], output: Path | None) -> list[str]:
        """A command line that answers with one JSON document."""
        line = ["--json"] if output is None else ["--json", f"--output={output}"]
        for option, value in values.items():
            if option == self._argument:
                continue
            param = self._options[option]
            if isinstance(value, bool):
                off = param.secondary_opts[:1]
                line += [f"--{option}"] if value else off
                continue
            line += [f"--{option}={each}" for each in (value if isinstance(value, list) else [value])]
        return [*line, "--", str(values[self._argument])] if self._argument in values else line

    def run(self, values: Mapping[str, object], output: Path) -> tuple[Any, int]:
        """Its JSON document and its exit code. What does not write by itself is written to `output`."""
        line = self.arguments(values, output if self.writes_itself else None)
        text = StringIO()
        code = 0
        with self._command.make_context(self.name, line) as context, redirect_stdout(text):
            try:
                self._command.invoke(context)
            except typer.Exit as ended:
                code = ended.exit_code
        document = json.loads(text.getvalue())
        if not self.writes_itself:
            with output_directory(output, self.name) as directory:
                write_json(directory / PLAN_FILE, document)
        return document, code


class CommandExecutor:
    """Runs steps as commands in this process, all with the keeper's session."""

    def __init__(self, pipeline: Pipeline, commands: Mapping[str, Command], keeper: SessionKeeper) -> None:
        self._pipeline = pipeline
        self._commands = commands
        self._keeper = keeper

    def run(self, step: Step, arguments: Mapping[str, object]) -> Answer:
        """Run it to its end."""
        output = self._pipeline.output_of(step.name)
        try:
            document, code = self._commands[step.job].run(arguments, output)
        except typer.exceptions.TyperException as error:
            raise MangroveError(f"step {step.name}: {error}") from error
        return Answer(document if isinstance(document, dict) else {"answer": document}, code == 0)

    def broken_off(self) -> None:
        """End what the step left running."""
        self._keeper.cancel_jobs()

    def restart(self) -> None:
        """The next step starts with a new session."""
        self._keeper.drop()


def commands() -> dict[str, Command]:
    """Everything that a pipeline file may name."""
    from mangrove.cli.pipeline import pipeline
    from mangrove.cli.planning import plan

    jobs: Any = typer.main.get_command(pipeline.app)
    planner: Any = typer.main.get_command(plan.app)
    found = {name: Command(name, each) for name, each in jobs.commands.items() if name not in NOT_STEPS}
    for name in PLANNING:
        full = f"plan {name}"
        found[full] = Command(full, planner.commands[name])
    return found


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


def _is_path(param: Any) -> bool:
    return param.type_descriptor.annotation is Path
