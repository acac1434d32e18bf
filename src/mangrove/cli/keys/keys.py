"""`mangrove keys`: who is who in a federation, and who can prove it."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.keys.location import KeysOption, key_directory
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import EXIT_NEGATIVE, InputError, MangroveError

if TYPE_CHECKING:
    from mangrove.host.keys.inspection import KeysReport
    from mangrove.model.audit.entry import Fact
    from mangrove.model.federation import Federation

app = typer.Typer(
    help="Make, hand out, replace and take back the keys of a federation.", no_args_is_help=True
)

FileArgument = Annotated[Path, typer.Argument(help="Federation file.")]
DomainOption = Annotated[str, typer.Option(help="Which site.")]


PATIENCE_S = 10.0
"""Clients that look for their new keys have them by then."""


class PartName(str, Enum):  # noqa: UP042 - typer shows the values of a str enum
    """Names of `host.keys.rotation.Part`; kept here so that `--help` need not load it."""

    GATEWAY = "gateway"
    SEALING = "sealing"
    BROKERS = "brokers"
    USERS = "users"
    CLIENTS = "clients"


@app.command()
def init(file: FileArgument, keys: KeysOption = None, as_json: JsonOption = False) -> None:
    """Make the keys of a federation, or those that are missing after its file has changed."""
    from mangrove.host.keys.inspection import inspect_keys
    from mangrove.host.keys.making import make_keys

    federation, directory = _place(file, keys)
    console = stderr_console()
    made: list[str] = []

    def progress(text: str) -> None:
        made.append(text)
        console.print(f"  made for {text}", soft_wrap=True, markup=False)

    make_keys(federation, directory, progress=progress)
    if made:
        _note(directory, "KEYS_MADE", made="; ".join(made))
    report = inspect_keys(directory)
    if as_json:
        print_json({"directory": str(directory), "generation": report.generation, "made": made})
        return
    out = stdout_console()
    out.print("Nothing was missing." if not made else f"Keys: {directory}", soft_wrap=True, markup=False)
    if made:
        out.print("Who has the authority's key can be anybody: keep a copy offline.")
        out.print("What one site needs: mangrove keys export FILE --domain SITE --to SITE.tar")


@app.command()
def issue(
    file: FileArgument,
    client: Annotated[str, typer.Argument(help="Name of the new client.")],
    domain: DomainOption,
    role: Annotated[str, typer.Option(help="Its role, of which access rules speak.")] = "client",
    keys: KeysOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the keys of a client of a site: a folder that holds all that it needs."""
    from mangrove.host.keys.making import issue_client

    federation, directory = _place(file, keys)
    known = federation.access.known_roles
    if federation.access and role not in known:
        raise InputError(
            f"no rule of {file} can speak of a role {role!r}",
            hint=f"one of {', '.join(known)}; or define it: `access: {{roles: {{{role}: []}}}}`",
        )
    folder = issue_client(directory, domain, client, role=role).path
    _note(directory, "KEY_ISSUED", domain=domain, client=client, role=role)
    if as_json:
        print_json({"client": client, "domain": domain, "role": role, "folder": str(folder)})
        return
    out = stdout_console()
    out.print(f"Keys of {client}: {folder}", soft_wrap=True, markup=False)
    out.print("Hand over the whole folder. Brokers on this machine know it within seconds,")
    out.print("others when the export of the site is unpacked there.")


@app.command()
def revoke(
    file: FileArgument,
    domain: DomainOption,
    client: Annotated[
        str | None, typer.Option(help="The client that is no longer believed; without it, the whole site.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether a site is really meant.")] = False,
    keys: KeysOption = None,
    as_json: JsonOption = False,
) -> None:
    """Believe a client, or the gateway of a site, no longer. What was revoked stays revoked."""
    from mangrove.host.keys.inspection import inspect_keys
    from mangrove.host.keys.making import revoke as end

    _, directory = _place(file, keys)
    if client is None and not yes:
        typer.confirm(
            f"The other sites will not speak with {domain} until it has new keys. Go on?", abort=True
        )
    end(directory, domain, client=client or "")
    _note(directory, "KEY_REVOKED", domain=domain, client=client or "")
    report = inspect_keys(directory)
    if as_json:
        print_json({"domain": domain, "client": client, "number": report.revocations})
        return
    out = stdout_console()
    whose = f"The client {client} of {domain}" if client else f"The gateway of {domain}"
    out.print(f"{whose} is no longer believed (list number {report.revocations}).", markup=False)
    out.print("On other machines that holds when revoked.json, or the site's export, is there.")


@app.command()
def rotate(
    file: FileArgument,
    everything: Annotated[
        bool, typer.Option("--all", help="Replace everything, the authority included, step by step.")
    ] = False,
    authority: Annotated[
        bool, typer.Option("--authority", help="Replace the authority, step by step.")
    ] = False,
    domain: Annotated[
        list[str] | None, typer.Option(help="Replace keys of this site; may be repeated.")
    ] = None,
    part: Annotated[
        list[PartName] | None, typer.Option(help="Of a site, replace this alone; may be repeated.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="Of a site, replace the keys of this client alone.")
    ] = None,
    finish: Annotated[bool, typer.Option("--finish", help="Believe what was replaced no longer.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --finish: also if somebody would be cut off.")
    ] = False,
    wait_s: Annotated[
        float | None,
        typer.Option(
            "--wait",
            min=0.0,
            help="Take all steps, so many seconds apart: when all sites are on this machine.",
        ),
    ] = None,
    keys: KeysOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace keys. Old and new ones are believed until all have the new ones, and that is ended."""
    from mangrove.cli.keys.steps import Step, steps
    from mangrove.host.keys.inspection import inspect_keys

    federation, directory = _place(file, keys)
    if sum((everything, authority, bool(domain), finish)) != 1:
        raise InputError("say what to replace", hint="one of --domain, --authority, --all and --finish")
    if (part or client) and not domain:
        raise InputError("--part and --client are of a site", hint="say which with --domain")
    console = stderr_console()
    before = inspect_keys(directory)
    planned = steps(
        before,
        everything=everything,
        authority=authority,
        finish=finish,
        domains=tuple(domain or ()),
        parts=tuple(each.value for each in part or ()),
        client=client or "",
    )
    done: list[Step] = []
    for position, step in enumerate(planned if wait_s is not None else planned[:1]):
        if position:
            console.print(f"  waiting {wait_s:g} s, so that all have it …")
            time.sleep(wait_s or 0.0)
        facts: dict[str, Fact] = {}
        if step.ends:
            patience_s = PATIENCE_S if wait_s is None else wait_s
            _sign_anew(federation, directory, force=force)
            facts = _cut_off(federation, directory, patience_s, file, force=force, as_json=as_json)
        step.take(directory)
        _note(directory, "KEY_ROTATED", step=step.said, **facts)
        done.append(step)
        console.print(f"  {step.said}", soft_wrap=True, markup=False)
    left = planned[len(done) :]
    if as_json:
        report = inspect_keys(directory)
        print_json({"done": [step.said for step in done], "left": len(left), "generation": report.generation})
    elif left:
        stdout_console().print(
            f"Next, when all sites have what `mangrove keys export` writes now:\n  {left[0].command(file)}",
            soft_wrap=True,
            markup=False,
        )


def _sign_anew(federation: Federation, directory: Path, *, force: bool) -> None:
    """Before an authority ends: what is in force with its signature gets that of the one that stays."""
    from mangrove.cli.keys.signed_anew import sign_anew

    try:
        version = sign_anew(federation, directory)
    except MangroveError as error:
        if not force:
            raise
        stderr_console().print(f"  {error.message}", soft_wrap=True, markup=False)
        return
    if version:
        stderr_console().print(f"  version {version} is in force: nothing changed, signed anew")


def _cut_off(
    federation: Federation, directory: Path, wait_s: float, file: Path, *, force: bool, as_json: bool
) -> dict[str, Fact]:
    """Ends here while clients are connected by keys that are about to end, unless that is `force`d."""
    from mangrove.cli.keys.left_behind import left_behind

    console = stderr_console()

    def waiting(connections: int) -> None:
        console.print(f"  waiting for {connections} connections by old keys …")

    found = left_behind(federation, directory, wait_s, waiting)
    if found.not_asked:
        console.print(f"  not asked, as they do not run here: {', '.join(found.not_asked)}", markup=False)
    if not (found.logins or found.silent or found.behind):
        return {}
    if found.silent and not force:
        raise MangroveError(
            f"{', '.join(found.silent)} does not say who is connected: not every host answers",
            hint="`mangrove status` tells which; --force goes on, and cuts off whoever has an old key there",
        )
    if found.behind and not force:
        raise MangroveError(
            f"the brokers of {', '.join(found.behind)} have not taken over the present keys yet",
            hint="wait a moment; the logs of who supervises them tell why, if it lasts",
        )
    if not force:
        if as_json:
            print_json({"connected_by_old_keys": found.plain()})
        else:
            found.show(stdout_console())
        console.print(
            "These clients would be cut off until they show their new keys. Give them these, or go on with\n"
            f"  mangrove keys rotate {file} --finish --force",
            soft_wrap=True,
            markup=False,
        )
        raise typer.Exit(EXIT_NEGATIVE)
    clients = sorted({f"{domain}/{each.client}" for domain, each in found.logins})
    console.print(f"  cut off: {', '.join(clients)}", soft_wrap=True, markup=False)
    return {"cut_off": ", ".join(clients), "connections": sum(each.connections for _, each in found.logins)}


@app.command()
def show(file: FileArgument, keys: KeysOption = None, as_json: JsonOption = False) -> None:
    """Show who has keys, when they end, what was revoked; never a secret. Exit code 1 if one has ended."""
    from mangrove.host.keys.inspection import differences, inspect_keys

    federation, directory = _place(file, keys)
    report = inspect_keys(directory)
    warnings = [*report.warnings, *differences(report, federation)]
    if as_json:
        print_json({"good": report.good, **_plain(report), "warnings": warnings})
    else:
        from mangrove.cli.keys.key_tables import show_keys

        show_keys(report, warnings, stdout_console())
    if not report.good:
        raise typer.Exit(EXIT_NEGATIVE)


@app.command()
def export(
    file: FileArgument,
    domain: DomainOption,
    to: Annotated[Path, typer.Option(help="The archive (tar) to write; it must not exist.")],
    host: Annotated[str | None, typer.Option(help="Only what this host of the site needs.")] = None,
    keys: KeysOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what one site needs: unpacked into a directory there, it is what `up --keys` wants."""
    from mangrove.agent.launcher import check_choice
    from mangrove.host.keys.export import export_site

    federation, directory = _place(file, keys)
    check_choice(federation, domain, host)
    files = export_site(directory, federation, domain, host, to)
    _note(directory, "KEYS_EXPORTED", domain=domain, host=host or "", to=str(to))
    if as_json:
        print_json({"archive": str(to), "domain": domain, "host": host, "files": files})
        return
    out = stdout_console()
    out.print(f"{len(files)} files for {domain}: {to}", soft_wrap=True, markup=False)
    out.print("There:  mkdir -m 700 -p KEYS && tar -xf ARCHIVE -C KEYS && rm ARCHIVE")
    out.print(f"        mangrove up FILE --domain {domain} --keys KEYS", markup=False)


def _note(directory: Path, kind: str, **facts: Fact) -> None:
    """Into the audit log; `kind` is the name of an `AuditKind`, so that `--help` need not load it."""
    from mangrove.host.audit.operator_audit import note_operator, run_of_keys
    from mangrove.model.audit.entry import AuditKind

    note_operator(run_of_keys(directory), AuditKind[kind], **facts)


def _place(file: Path, keys: Path | None) -> tuple[Federation, Path]:
    from mangrove.config import load_federation

    federation = load_federation(file)
    return federation, key_directory(federation, keys)


def _plain(report: KeysReport) -> dict[str, object]:
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(report)
    return plain
