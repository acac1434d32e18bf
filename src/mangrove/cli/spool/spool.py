"""`mangrove spool`: what clients have kept on disk while no broker could be reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.client.offline.kept import Kept
    from mangrove.client.offline.spool import SpoolContent

app = typer.Typer(help="What clients keep on disk while no broker can be reached.", no_args_is_help=True)

DirectoryArgument = Annotated[Path, typer.Argument(help="The directory that was given to the client.")]
SubjectOption = Annotated[str | None, typer.Option("--subject", help="Only what falls under this pattern.")]


@app.command()
def show(directory: DirectoryArgument, subject: SubjectOption = None, as_json: JsonOption = False) -> None:
    """Show what waits, by subject, and since when. A client that uses the directory is not disturbed."""
    from mangrove.client.offline.spool import in_use, look_into

    content = look_into(directory)
    waiting = _chosen(content.waiting, subject)
    used = in_use(directory)
    if as_json:
        print_json(_document(content, waiting, used))
    else:
        _print(directory, content, waiting, used)


@app.command()
def drop(
    directory: DirectoryArgument,
    subject: SubjectOption = None,
    force: Annotated[bool, typer.Option("--force", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give up messages that wait: they will not be sent. Not while a client uses the directory."""
    from mangrove.client.offline.settings import DEFAULT_BYTES
    from mangrove.client.offline.spool import Spool, look_into

    look_into(directory)  # a directory that is not there is not made
    spool = Spool(directory, DEFAULT_BYTES)
    try:
        waiting = _chosen(spool.found.waiting, subject)
        if waiting and not force:
            typer.confirm(f"Drop {len(waiting):,} messages that were never sent?", abort=True, err=True)
        spool.done([kept.number for kept in waiting])
    finally:
        spool.close()
    left = len(spool.found.waiting) - len(waiting)
    if as_json:
        print_json({"dropped": len(waiting), "left": left})
    else:
        stdout_console().print(f"dropped {len(waiting):,} messages, {left:,} are left")


def _chosen(waiting: list[Kept], subject: str | None) -> list[Kept]:
    from mangrove.model.subjects import matches, subject_problem

    if subject is None:
        return waiting
    if problem := subject_problem(subject, wildcards=True):
        raise InputError(f"{subject!r} is no subject: {problem}")
    return [kept for kept in waiting if matches(subject, kept.subject)]


def _by_subject(waiting: list[Kept]) -> dict[str, list[Kept]]:
    found: dict[str, list[Kept]] = {}
    for kept in waiting:
        found.setdefault(kept.subject, []).append(kept)
    return found


def _document(content: SpoolContent, waiting: list[Kept], used: bool) -> dict[str, object]:
    return {
        "messages": len(waiting),
        "payload_bytes": sum(len(kept.payload) for kept in waiting),
        "file_bytes": content.size_bytes,
        "unreadable_bytes": content.unreadable_bytes,
        "in_use": used,
        "subjects": {
            subject: {
                "messages": len(some),
                "payload_bytes": sum(len(kept.payload) for kept in some),
                "oldest": some[0].at_ns / 1e9,
                "newest": some[-1].at_ns / 1e9,
            }
            for subject, some in _by_subject(waiting).items()
        },
    }


def _print(directory: Path, content: SpoolContent, waiting: list[Kept], used: bool) -> None:
    from datetime import datetime

    from rich.markup import escape
    from rich.table import Table

    console = stdout_console()
    by = "a client uses it" if used else "no client uses it"
    console.print(f"{escape(str(directory))}:", soft_wrap=True)
    console.print(f"{len(waiting):,} messages, {content.size_bytes:,} bytes of files, {by}")
    if content.unreadable_bytes:
        console.print(f"{content.unreadable_bytes:,} bytes at the end of files cannot be read")
    if not waiting:
        return
    table = Table("subject", "messages", "bytes", "oldest", "newest", box=None, header_style="bold")
    for subject, some in _by_subject(waiting).items():
        times = (datetime.fromtimestamp(each.at_ns / 1e9).astimezone() for each in (some[0], some[-1]))
        table.add_row(
            escape(subject),
            f"{len(some):,}",
            f"{sum(len(kept.payload) for kept in some):,}",
            *(f"{each:%Y-%m-%d %H:%M:%S}" for each in times),
        )
    console.print(table)
