"""`mangrove pause` and `mangrove resume`: whether agents decide by themselves."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

from mangrove.cli.agents.asking import DomainOption, told_by
from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async

if TYPE_CHECKING:
    from mangrove.model.endpoints import DomainEndpoints


def pause(
    domain: DomainOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop automatic decisions: no session, plan or limit begins; what is under way ends."""
    _set(True, domain, federation, run_dir, as_json)


def resume(
    domain: DomainOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let agents decide by themselves again."""
    _set(False, domain, federation, run_dir, as_json)


def _set(
    paused: bool, domain: str | None, federation: str | None, run_dir: RunDirOption, as_json: bool
) -> None:
    from mangrove.cli.federation.load import chosen_domains
    from mangrove.host.runtime_file import find_running

    domains = chosen_domains(find_running(federation, run_dir), domain)
    run_async(_tell(domains, paused))
    if as_json:
        print_json({"domains": {each.domain: {"paused": paused} for each in domains}})
        return
    names = ", ".join(each.domain for each in domains)
    said = (
        f"nothing is decided automatically in {names}; go on with: mangrove resume"
        if paused
        else f"agents decide by themselves in {names}"
    )
    stdout_console().print(said, highlight=False)


async def _tell(domains: list[DomainEndpoints], paused: bool) -> None:
    from mangrove.agent.management import ManagementConnection
    from mangrove.model.agents.operations import PauseAsked

    operation = PauseAsked(paused=paused, by=_user())
    for endpoints in domains:
        async with ManagementConnection(endpoints) as management:
            await told_by(management, endpoints, operation)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return ""
