"""What all jobs of `mangrove pipeline` share: their options, a Spark session, what was skipped."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mangrove.cli.output import stderr_console
from mangrove.pipelines.session.settings import SparkSettings

if TYPE_CHECKING:
    from mangrove.pipelines.run.session_keeper import SessionKeeper

OutputOption = Annotated[
    Path, typer.Option("--output", help="Directory for the results; a repeated run replaces it.")
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master, e.g. spark://host:7077. [default: this process]")
]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect server, sc://host:15002.")]
MemoryOption = Annotated[str, typer.Option("--memory", help="Memory of Spark's driver in this process.")]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
]
SparkLogOption = Annotated[
    str | None,
    typer.Option(
        "--spark-log", metavar="LEVEL", help="Show Spark's log on stderr: ERROR, WARN, INFO or DEBUG."
    ),
]
TimeLimitOption = Annotated[
    float | None, typer.Option("--time-limit", metavar="SECONDS", help="Cancel the run after so long.")
]
DomainOption = Annotated[
    list[str] | None, typer.Option("--domain", help="Only this domain; may be repeated.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]


_shared: ContextVar[SessionKeeper | None] = ContextVar("shared Spark session", default=None)
# The parameters that `session_options` gives a command, with their defaults.
SESSION_OPTIONS: dict[str, tuple[Any, Any]] = {
    "master": (MasterOption, None),
    "remote": (RemoteOption, None),
    "memory": (MemoryOption, "2g"),
    "conf": (ConfOption, None),
    "spark_log": (SparkLogOption, None),
    "time_limit": (TimeLimitOption, None),
}


def session_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options of a Spark session; it receives them, checked, as `session`."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        options = {name: given.pop(name) for name in SESSION_OPTIONS}
        command(**given, session=session_settings(**options))

    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "session"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=default, annotation=kind)
        for name, (kind, default) in SESSION_OPTIONS.items()
    ]
    parameters = [parameter.replace(kind=keyword) for parameter in own] + added
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def session_settings(
    master: str | None = None,
    remote: str | None = None,
    memory: str = "2g",
    conf: Sequence[str] | None = None,
    spark_log: str | None = None,
    time_limit: float | None = None,
) -> SparkSettings:
    """The options as settings; what does not go together is refused."""
    return SparkSettings.checked(master, remote, memory, conf or (), spark_log, time_limit)


@contextmanager
def spark_session(
    master: str | None = None, remote: str | None = None, memory: str = "2g"
) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """A Spark session, and a way to say what goes on."""
    with open_session(session_settings(master, remote, memory)) as opened:
        yield opened


@contextmanager
def open_session(settings: SparkSettings) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """The session of a command, and a way to say what goes on; within `pipeline run`, that of the run."""
    from mangrove.pipelines.spark_session import opened

    keeper = _shared.get()
    if keeper is not None:
        running = keeper.running()
        with running.told():
            yield running.spark, keeper.progress
        return
    console = stderr_console()
    with console.status("starting Spark …") as status:

        def progress(text: str) -> None:
            status.update(f"{text} …")
            if not console.is_terminal:
                console.print(text)

        with opened(settings) as spark:
            yield spark, progress


@contextmanager
def shared_session(keeper: SessionKeeper) -> Iterator[None]:
    """Commands that run inside use the keeper's session instead of one of their own."""
    token = _shared.set(keeper)
    try:
        yield
    finally:
        _shared.reset(token)


def report_skipped(summary: dict[str, Any]) -> None:
    """What was left out, on stderr."""
    console = stderr_console()
    skipped = summary.get("skipped", [])
    if skipped:
        console.print(f"[yellow]skipped or noted: {len(skipped)}[/yellow]")
    for each in skipped[:20]:
        count = "" if each["rows"] is None else f"{each['rows']} rows: "
        console.print(f"  {each['path']}: {count}{each['reason']}", markup=False, soft_wrap=True)
    if len(skipped) > 20:
        console.print(f"  … and {len(skipped) - 20} more; all are in summary.json")
    for warning in summary.get("warnings", []):
        console.print(f"[yellow]warning:[/yellow] {warning}")
