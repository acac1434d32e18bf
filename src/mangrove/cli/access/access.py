"""`mangrove access`: what applies to a client and a subject and why, and whether a file's rules are sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.keys.location import KeysOption, key_directory
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.model.access.explanation import Explanation
    from mangrove.model.access.rules import AccessRules, Principal
    from mangrove.model.endpoints import Runtime
    from mangrove.model.federation import Federation

app = typer.Typer(help="Who may publish and subscribe to what, and why.", no_args_is_help=True)

FileOption = Annotated[
    Path | None, typer.Option("--file", help="A federation file. [default: the running federation]")
]


@app.command()
def explain(
    client: Annotated[str, typer.Argument(help="Name of a client, or DOMAIN/NAME.")],
    subject: Annotated[str, typer.Argument(help="A subject, or a pattern to subscribe to.")],
    domain: Annotated[str | None, typer.Option(help="The domain of the client.")] = None,
    to: Annotated[str | None, typer.Option(help="Only what passes to and from this domain.")] = None,
    role: Annotated[
        str | None, typer.Option(help="A role that its key gives it. [default: as its keys here say]")
    ] = None,
    file: FileOption = None,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what the brokers and the gateways at both ends decide, and by which rule."""
    from msgspec.structs import replace

    from mangrove.model.access.explanation import explain as explained
    from mangrove.model.subjects import subject_problem

    if problem := subject_problem(subject, wildcards=True):
        raise InputError(f"{subject!r} is no subject: {problem}")
    found, directory = _federation(file, federation, run_dir, keys)
    principal = _principal(found, client, domain)
    principal = replace(principal, role=_role(found, directory, principal, role))
    if to is not None and (to not in found.domains or to == principal.domain):
        others = ", ".join(name for name in found.domains if name != principal.domain)
        raise InputError(f"{to!r} is no other domain", hint=f"one of {others}")
    explanation = explained(found, principal, subject, to or "")
    if as_json:
        print_json(explanation)
    else:
        _show(explanation)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A federation file.")], as_json: JsonOption = False
) -> None:
    """Read the rules of a file: mistakes and contradictions are errors, rules without effect are named."""
    from mangrove.config import load_federation
    from mangrove.model.access.analysis import access_warnings

    rules = load_federation(file).access
    warnings = access_warnings(rules)
    if as_json:
        print_json(
            {
                "default": rules.default,
                "between": rules.between,
                "rules": len(rules.rules),
                "roles": {role: len(clients) for role, clients in rules.roles.items()},
                "warnings": warnings,
            }
        )
        return
    from rich.markup import escape

    stdout_console().print(escape(_summary(rules)))
    for warning in warnings:
        stderr_console().print(f"[yellow]warning:[/yellow] {escape(warning)}")


def _summary(rules: AccessRules) -> str:
    count = len(rules.rules)
    counted = f"{count} rule{'' if count == 1 else 's'}, none of which contradicts another"
    defaults = f"what no rule speaks of: {rules.default} inside a domain, {rules.between} between domains"
    return f"{counted if count else 'no rules'}; {defaults}"


def _federation(
    file: Path | None, name: str | None, run_dir: Path | None, keys: Path | None
) -> tuple[Federation, Path]:
    """What is asked about, and where its keys would be."""
    if file is not None:
        from mangrove.config import load_federation

        federation = load_federation(file)
        return federation, key_directory(federation, keys, run_dir)
    from mangrove.host.runtime_file import find_running

    running = find_running(name, run_dir)
    used = Path(running.keys) if keys is None and running.keys else keys
    return _in_force(running), key_directory(running.federation, used, run_dir)


def _in_force(running: Runtime) -> Federation:
    """What holds at present; where no gateway answers, what the site was started with."""
    from mangrove.agent.avoidance import NobodyAnswersError
    from mangrove.agent.versioning import standing
    from mangrove.cli.running import run_async
    from mangrove.model.versions.document import in_force

    try:
        return in_force(running.federation, run_async(standing(running)).document)
    except NobodyAnswersError:
        return running.federation


def _role(federation: Federation, keys: Path, principal: Principal, role: str | None) -> str:
    """The role that a client's key gives it, as far as keys are here."""
    from mangrove.model.security.users import CLIENT_ROLE

    if role is not None:
        known = federation.access.known_roles
        if role not in known:
            raise InputError(f"there is no role {role!r}", hint=f"one of {', '.join(known)}")
        return role
    from mangrove.host.keys.directory import KeyDirectory

    folder = KeyDirectory(keys).domain(principal.domain)
    if not folder.users.exists():
        return CLIENT_ROLE
    from mangrove.host.keys.ring import read_users

    roles = (user.role for user in read_users(folder).users if user.client and user.name == principal.client)
    return next(roles, CLIENT_ROLE)


def _principal(federation: Federation, client: str, domain: str | None) -> Principal:
    from mangrove.model.access.rules import Principal

    if "/" in client:
        of, client = client.split("/", 1)
        if domain not in (None, of):
            raise InputError(f"the client is of {of!r}, not of {domain!r}", hint="leave out --domain")
        domain = of
    if domain is None and len(federation.domains) == 1:
        domain = next(iter(federation.domains))
    known = ", ".join(federation.domains)
    if domain is None:
        raise InputError(f"of which domain is {client!r}?", hint=f"--domain, one of {known}")
    if domain not in federation.domains:
        raise InputError(f"there is no domain {domain!r}", hint=f"one of {known}")
    return Principal(domain=domain, client=client)


def _show(explanation: Explanation) -> None:
    from mangrove.cli.tables.table import Styled, Table, details_column, name_column, word_column

    roles = ", ".join(explanation.roles)
    table = Table(
        f"{explanation.client} of {explanation.domain} ({roles}) and {explanation.subject}",
        name_column("where"),
        name_column("what"),
        word_column("may"),
        details_column("why"),
    )
    styles = {"yes": "green", "no": "red", "in part": "yellow"}
    for step in explanation.steps:
        table.add(step.place, step.question, Styled(step.answer, styles[step.answer]), step.reason)
    table.show(stdout_console())
