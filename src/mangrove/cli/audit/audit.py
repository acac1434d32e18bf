"""`mangrove audit`: who connected, was refused, or changed something; and whether the log is whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE, InputError

if TYPE_CHECKING:
    from mangrove.host.run_directory import RunDirectory
    from mangrove.model.audit.check import ChainReport
    from mangrove.model.audit.entry import AuditEntry, AuditHead

app = typer.Typer(no_args_is_help=True, help="Who connected, was refused, or changed something.")

LAST = 30

NameOption = Annotated[
    str | None, typer.Option("--federation", "-f", help="Which one, if several have run on this machine.")
]


@app.command()
def show(
    last: Annotated[int, typer.Option(min=1, help="How many of the latest entries to show.")] = LAST,
    kind: Annotated[str | None, typer.Option(help="Entries of this kind alone.")] = None,
    process: Annotated[str | None, typer.Option(help="Entries of this process alone.")] = None,
    federation: NameOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the latest entries of this machine's audit logs, also of a federation that is down."""
    from mangrove.cli.audit.audit_tables import show_entries

    run = audited_run(federation, run_dir)
    entries = _entries(run, kind, process)
    chosen = entries[-last:]
    if as_json:
        print_json(chosen)
        return
    show_entries(chosen, len(entries) - len(chosen), stdout_console())


@app.command()
def verify(
    against: Annotated[
        Path | None, typer.Option(help="Heads that were kept elsewhere: what `audit heads --json` printed.")
    ] = None,
    federation: NameOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that no entry was changed, removed, added or moved. Exit code 1 if one was.

    Running processes are asked for the ends of their chains, so that a file that was cut is found as well.
    """
    from mangrove.cli.audit.audit_tables import show_reports
    from mangrove.host.audit.reading import check_logs, read_heads

    run = audited_run(federation, run_dir)
    heads = read_heads(against) if against is not None else []
    heads += _living_heads(run)
    reports = check_logs(run, heads)
    whole = all(report.whole for report in reports)
    if as_json:
        print_json({"whole": whole, "processes": reports})
    else:
        show_reports(reports, stdout_console())
    if not whole:
        raise typer.Exit(EXIT_NEGATIVE)


@app.command()
def heads(federation: NameOption = None, run_dir: RunDirOption = None, as_json: JsonOption = False) -> None:
    """Print number and hash of each log's last entry, to be kept on another machine for `audit verify`."""
    from mangrove.cli.audit.audit_tables import show_heads
    from mangrove.host.audit.reading import check_logs

    reports: list[ChainReport] = check_logs(audited_run(federation, run_dir))
    found = [report.head for report in reports]
    if as_json:
        print_json(found)
    else:
        show_heads(found, stdout_console())


def audited_run(name: str | None, run_dir: Path | None) -> RunDirectory:
    """The run whose audit logs are meant, whether it is up or not."""
    from mangrove.host.run_directory import RunDirectory, state_directory

    if run_dir is not None:
        found = [RunDirectory(run_dir)]
    elif name is not None:
        found = [RunDirectory(state_directory() / name)]
    else:
        found = [RunDirectory(path.parent) for path in sorted(state_directory().glob("*/audit"))]
    found = [run for run in found if run.audit.is_dir()]
    if not found:
        where = run_dir or name or state_directory()
        raise InputError(f"there is no audit log of {where}", hint="it begins when a federation is started")
    if len(found) > 1:
        names = ", ".join(run.path.name for run in found)
        raise InputError(
            f"several federations have audit logs here: {names}", hint="choose with --federation"
        )
    return found[0]


def _entries(run: RunDirectory, kind: str | None, process: str | None) -> list[AuditEntry]:
    """What is asked for, in order of time."""
    from mangrove.host.audit.reading import processes_in, read_chain
    from mangrove.model.audit.entry import AuditKind

    known = processes_in(run)
    if process is not None and process not in known:
        raise InputError(f"{process!r} has no audit log", hint=f"those with one: {', '.join(known)}")
    kinds = [each.value for each in AuditKind]
    if kind is not None and kind not in kinds:
        raise InputError(f"{kind!r} is no kind of entry", hint=f"choose one of: {', '.join(kinds)}")
    entries = [
        entry
        for each in (known if process is None else [process])
        for entry in read_chain(run, each)
        if kind is None or entry.kind == kind
    ]
    return sorted(entries, key=lambda entry: entry.at)


def _living_heads(run: RunDirectory) -> list[AuditHead]:
    """What running processes say of the ends of their chains; none if nothing runs there."""
    from mangrove.host.runtime_file import is_running, read_runtime

    if not is_running(run) or not run.runtime.exists():
        return []
    from mangrove.agent.inspection import audit_heads

    told = run_async(audit_heads(read_runtime(run)))
    return [head for head in told if run.settings(head.process).exists()]  # others run elsewhere
