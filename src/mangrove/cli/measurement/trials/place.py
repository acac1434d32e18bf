"""Where trials are played and kept: processes of this machine or a cluster, memory or a directory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mangrove.cli.measurement.trials.progress import TrialProgress
from mangrove.cli.output import stderr_console
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.evaluation.trials.campaign import Results
    from mangrove.evaluation.trials.experiment import Experiment, Played, Task
    from mangrove.evaluation.trials.results_directory import ResultsDirectory
    from mangrove.evaluation.trials.runner import Runner

Setting = TypeVar("Setting")
Result = TypeVar("Result")

WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes to spread the trials over; by default one a core.")
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Play the trials on this Spark master, e.g. spark://host:7077.")
]
RemoteOption = Annotated[
    str | None, typer.Option("--remote", help="Play them through this Spark Connect server, sc://host:15002.")
]
ResultsOption = Annotated[
    Path | None,
    typer.Option("--results", help="Keep each trial's result here as Parquet; run again to go on."),
]


@dataclass(frozen=True)
class Place:
    """The options that say where."""

    workers: int | None = None
    master: str | None = None
    remote: str | None = None
    results: Path | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and (self.master or self.remote):
            raise InputError("--workers is for processes of this machine", hint="leave it out with a cluster")

    def play(
        self,
        experiment: Experiment[Setting, Result],
        tasks: Sequence[Task],
        take: Callable[[Task, Result], None],
    ) -> list[Played]:
        """Play what is missing, hand all results to `take` in any order, and return those that failed."""
        from mangrove.evaluation.trials.campaign import play

        progress: TrialProgress | None = None
        try:
            with ExitStack() as stack:
                directory = self._directory(stack, experiment)
                found = 0 if directory is None else sum(task in directory.found for task in tasks)
                runner = stack.enter_context(self._runner(needed=found < len(tasks)))
                progress = stack.enter_context(TrialProgress(len(tasks), found))
                return play(experiment, tasks, runner, take, directory, progress.advance)
        finally:
            # After Ctrl-C too, when everything is written.
            if progress is not None and self.results is not None:
                self._tell(progress)

    def _tell(self, progress: TrialProgress) -> None:
        kept = f"{progress.played - progress.failed} trials played and kept, {progress.already} read"
        rest = progress.total - progress.already - progress.played
        more = f", {rest} left (run again to go on)" if rest else ""
        stderr_console().print(f"{kept}{more}: {self.results}", soft_wrap=True, markup=False)

    def collect(self, experiment: Experiment[Setting, Result], tasks: Sequence[Task]) -> Results[Result]:
        """All results, in the order of tasks."""
        from mangrove.evaluation.trials.campaign import gathered

        found: dict[Task, Result] = {}
        failed = self.play(experiment, tasks, found.__setitem__)
        return gathered(tasks, found, failed)

    def _directory(
        self, stack: ExitStack, experiment: Experiment[Setting, Result]
    ) -> ResultsDirectory | None:
        if self.results is None:
            return None
        from mangrove.evaluation.trials.results_directory import results_directory
        from mangrove.evaluation.trials.source_code import code_digest

        directory = stack.enter_context(results_directory(self.results, experiment))
        console = stderr_console()
        for line in directory.damaged:
            console.print(f"[yellow]left out, and played again:[/yellow] {line}", soft_wrap=True)
        if directory.codes - {code_digest()}:
            console.print(
                "[yellow]the code has changed[/yellow] since some of these results; column `code` tells them"
                " apart, and a new directory keeps them apart",
                soft_wrap=True,
            )
        return directory

    @contextmanager
    def _runner(self, *, needed: bool) -> Iterator[Runner]:
        from mangrove.evaluation.trials.runner import LocalRunner

        if not needed or not (self.master or self.remote):
            yield LocalRunner(self.workers or os.cpu_count() or 1)
            return
        from mangrove.evaluation.trials.source_code import packed
        from mangrove.pipelines.spark_session import session
        from mangrove.pipelines.trials.spark_runner import SparkRunner

        with ExitStack() as stack:
            with stderr_console().status("starting Spark …"):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mangrove-code-")))
                away = self.remote or not (self.master or "").startswith("local")
                spark = stack.enter_context(session(self.master, self.remote))
                runner = SparkRunner(spark, packed(folder) if away else None)
            yield runner
