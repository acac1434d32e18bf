"""What all jobs of `mangrove pipeline` share: their options, a Spark session, what was skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from mangrove.cli.output import stderr_console

InputOption = Annotated[
    str, typer.Option("--input", help="The telemetry lake: a directory or an object store's URL.")
]
OutputOption = Annotated[
    Path, typer.Option("--output", help="Directory for the results; a repeated run replaces it.")
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master, e.g. spark://host:7077. [default: this process]")
]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect server, sc://host:15002.")]
MemoryOption = Annotated[str, typer.Option("--memory", help="Memory of Spark's driver in this process.")]
DomainOption = Annotated[
    list[str] | None, typer.Option("--domain", help="Only this domain; may be repeated.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]


@contextmanager
def spark_session(
    master: str | None, remote: str | None, memory: str = "2g"
) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """A Spark session, and a way to say what goes on."""
    from mangrove.pipelines.spark_session import session

    console = stderr_console()
    with console.status("starting Spark …") as status:

        def progress(text: str) -> None:
            status.update(f"{text} …")
            if not console.is_terminal:
                console.print(text)

        with session(master, remote, memory) as spark:
            yield spark, progress


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
