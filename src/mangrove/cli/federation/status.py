"""`mangrove status`: the state of a running federation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from mangrove.model.status import FederationStatus

FederationOption = Annotated[
    str | None, typer.Option("--federation", "-f", help="Which one, if several run on this machine.")
]


def status(
    federation: FederationOption = None, run_dir: RunDirOption = None, as_json: JsonOption = False
) -> None:
    """Show brokers, links, interest and drops. Exit code 1 if something is down."""
    import msgspec

    from mangrove.agent.inspection import inspect
    from mangrove.cli.keys.warnings import key_warnings, warn_of_no_security
    from mangrove.host.runtime_file import find_running
    from mangrove.model.security.rules import SecurityMode

    runtime = find_running(federation, run_dir)
    found = run_async(inspect(runtime))
    found = msgspec.structs.replace(found, warnings=(*found.warnings, *key_warnings(runtime)))
    if as_json:
        security = SecurityMode.KEYS if runtime.keys else SecurityMode.NONE
        print_json({"healthy": found.healthy, "security": security, **_plain(found)})
    else:
        from mangrove.cli.federation.status_tables import show_status

        show_status(found, stdout_console())
        if not runtime.keys:
            warn_of_no_security(stdout_console())
    if not found.healthy:
        raise typer.Exit(EXIT_NEGATIVE)


def _plain(found: FederationStatus) -> dict[str, object]:
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(found)
    return plain
