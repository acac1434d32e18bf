"""`mangrove up`: run a federation, or one site or host of it, until interrupted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.keys.location import KeysOption, key_directory
from mangrove.cli.keys.warnings import warn_of_no_security
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError, Mistake

if TYPE_CHECKING:
    from mangrove.agent.launcher import Launcher
    from mangrove.config import Reading
    from mangrove.host.keys.login import LoginSource
    from mangrove.model.endpoints import Runtime
    from mangrove.model.federation import Federation

SECRET_LENGTH = 16

RunDirOption = Annotated[
    Path | None,
    typer.Option("--run-dir", help="Where logs and state go; by default the user's state directory."),
]


def up(
    file: Annotated[Path, typer.Argument(help="Federation file.")],
    domain: Annotated[str | None, typer.Option(help="Run this site alone; others run elsewhere.")] = None,
    host: Annotated[str | None, typer.Option(help="Run this host of the site alone.")] = None,
    secret: Annotated[
        Path | None,
        typer.Option(help="Without keys: file with the agents' password, on all hosts."),
    ] = None,
    keys: KeysOption = None,
    run_dir: RunDirOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the emulated links' jitter and loss.")] = 1,
    lake: Annotated[
        Path | None, typer.Option(help="Telemetry lake to record into. [default: in the run directory]")
    ] = None,
    record: Annotated[bool, typer.Option(help="Record telemetry once a second.")] = True,
    stimuli: Annotated[
        bool, typer.Option(help="Record what the gateways' engines are told, for `mangrove replay`.")
    ] = False,
    emulate_brokers: Annotated[
        bool, typer.Option(help="Lead all connections of brokers through an emulator, for `mangrove broker`.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a federation from its file, or one site of it, until interrupted."""
    if host is not None and domain is None:
        raise InputError("--host is for one site", hint="say which with --domain")
    if emulate_brokers and domain is not None:
        raise InputError("--emulate-brokers and --domain exclude each other", hint="one site is real")
    word = "" if secret is None else read_secret(secret)
    run_async(
        _up(file, domain, host, word, keys, run_dir, seed, lake, record, stimuli, emulate_brokers, as_json)
    )


def read_secret(path: Path) -> str:
    """The password in a file; one that could be guessed is refused."""
    try:
        word = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the secret {path}: {error}") from None
    if len(word) < SECRET_LENGTH or not word.isascii() or not word.isprintable():
        raise InputError(
            f"the secret in {path} is no password", hint=f"write at least {SECRET_LENGTH} letters and digits"
        )
    return word


async def _up(
    file: Path,
    domain: str | None,
    host: str | None,
    secret: str,
    keys: Path | None,
    run_dir: Path | None,
    seed: int,
    lake: Path | None,
    record: bool,
    stimuli: bool,
    emulate_brokers: bool,
    as_json: bool,
) -> None:
    from rich.markup import escape

    from mangrove.agent.recording import Recording
    from mangrove.cli.versions.superseded import network_in_force, superseded
    from mangrove.config import read_federation
    from mangrove.host.audit.operator_audit import note_operator
    from mangrove.host.run_directory import RunDirectory, default_run_directory
    from mangrove.model.audit.entry import AuditKind
    from mangrove.model.contract_warnings import federation_warnings

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    reading = read_federation(file)
    federation = reading.require(await unreachable(reading))
    name = federation.name if host is None else f"{federation.name}-{domain}-{host}"
    run = RunDirectory(run_dir) if run_dir else default_run_directory(name)
    console = stderr_console()
    secured = federation.security.secured or keys is not None
    directory = key_directory(federation, keys, run_dir) if secured else None
    if host is not None and not secret and not secured:
        raise InputError(
            "a host that runs alone needs --secret where there are no keys",
            hint="make a file with a long random word, and copy it to all hosts of the site",
        )
    federation = network_in_force(federation, run, domain)
    console.print(_intention(federation, domain))
    if not secured:
        warn_of_no_security(console)
    own = (domain,) if domain else tuple(federation.domains)
    for warning in (*federation_warnings(federation), *superseded(federation, run, own)):
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}")
    launched = _launcher(
        federation,
        run.path,
        domain,
        host,
        secret,
        directory,
        seed,
        stimuli,
        emulate_brokers,
        lambda text: console.print(f"  {text}"),
    )
    hosts = federation.domains[domain].hosts if domain else ()
    further = host is not None and host != hosts[0].name  # the first host records the whole site
    into = (lake or run.telemetry) if record and not further else None
    async with Recording(run, into) as recording, launched:
        local = [launched.endpoints[name] for name in launched.local_domains]
        note = await recording.start(federation, local, launched.keys)
        if as_json:
            print_json(launched.runtime())
        else:
            show_endpoints(launched.runtime(), domain)
        console.print(f"Running. Logs: {run.logs}. Look at it with `mangrove status`; Ctrl-C stops it.")
        console.print(note)
        where = {"domain": domain or "", "host": host or ""}
        note_operator(run, AuditKind.FEDERATION_STARTED, file=str(file), secured=secured, **where)
        try:
            await launched.until_refused()
        finally:
            console.print("Stopping …")
            note_operator(run, AuditKind.FEDERATION_STOPPED)
            recording.begin_stop()


def _launcher(
    federation: Federation,
    directory: Path,
    domain: str | None,
    host: str | None,
    secret: str,
    keys: Path | None,
    seed: int,
    stimuli: bool,
    emulate_brokers: bool,
    progress: Callable[[str], None],
) -> Launcher:
    """One site has the network for its links; a whole federation on one machine emulates them."""
    from mangrove.agent.launcher import Launcher

    if domain is not None:
        return Launcher(
            federation,
            directory,
            only=domain,
            host=host,
            secret=secret,
            keys=keys,
            record_stimuli=stimuli,
            progress=progress,
        )
    from mangrove.testbed.local_federation import LocalFederation

    return LocalFederation(
        federation,
        directory,
        secured=keys is not None,
        keys=keys,
        seed=seed,
        record_stimuli=stimuli,
        emulate_brokers=emulate_brokers,
        progress=progress,
    )


async def unreachable(reading: Reading) -> list[Mistake]:
    """Mistakes that only show on the network: external brokers that cannot be joined."""
    from mangrove.broker.kinds import kind_of
    from mangrove.host.keys.logins.external_login import external_login

    def login_at(path: str) -> LoginSource | None:
        """How we log in at the broker that is named there; a file with mistakes does not tell."""
        if reading.federation is None:
            return None
        return external_login(reading.federation.domains[path.split(".")[1]].external)

    problems = await asyncio.gather(
        *(
            kind_of(kind).attach_problem(url, login_at(path))
            for path, (url, kind) in reading.external_heads.items()
        )
    )
    return [
        Mistake(path, problem)
        for path, problem in zip(reading.external_heads, problems, strict=True)
        if problem
    ]


def _intention(federation: Federation, domain: str | None) -> str:
    names = [domain] if domain else list(federation.domains)
    brokers = sum(2 + len(federation.domains[name].edges) for name in names if name in federation.domains)
    return f"Starting [bold]{federation.name}[/bold]: {len(names)} sites, {brokers} brokers …"


def show_endpoints(runtime: Runtime, only: str | None) -> None:
    """A table of where clients connect."""
    from mangrove.cli.tables.table import Table, details_column, name_column
    from mangrove.model.address import Address

    table = Table(
        f"Federation {runtime.federation.name}",
        name_column("domain"),
        details_column("publish to (head)"),
        details_column("subscribe at (edges)"),
        details_column("MQTT"),
    )
    for domain, endpoints in runtime.domains.items():
        if only not in (None, domain):
            continue
        first = (domain, endpoints.head.client_url)
        for broker in endpoints.edges or (endpoints.head,):
            mqtt = str(Address(broker.host, broker.mqtt_port)) if broker.mqtt_port else ""
            table.add(*first, broker.client_url, mqtt)
            first = ("", "")
    table.show(stdout_console())
