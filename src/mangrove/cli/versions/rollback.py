"""`mangrove rollback`: an earlier version of a federation that runs, in force again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption
from mangrove.cli.running import run_async
from mangrove.cli.versions.changing import (
    DEFAULT_WAIT_S,
    CheckOption,
    ForceOption,
    KeysOption,
    WaitOption,
    change,
    present,
)
from mangrove.cli.versions.membership import present_network, refuse_partition
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.agent.versioning import Standing
    from mangrove.model.endpoints import Runtime
    from mangrove.model.versions.document import FederationDocument
    from mangrove.model.versions.network import Network


def rollback(
    version: Annotated[
        int, typer.Argument(min=0, help="The one to go back to; by default the one before.")
    ] = 0,
    force: ForceOption = False,
    check: CheckOption = False,
    wait: WaitOption = DEFAULT_WAIT_S,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put an earlier version in force again, as a version of its own; who is a member stays as it is."""
    from mangrove.host.runtime_file import find_running
    from mangrove.model.versions.settings import settings_of

    runtime = find_running(federation, run_dir)
    now = present(runtime)
    wanted = version or now.document.version - 1
    if not 1 <= wanted <= now.document.version:
        raise InputError(f"there is no version {wanted}", hint="mangrove history lists them")
    then = earlier(wanted, now, runtime)
    network, since = network_back(then, now, runtime, force=force)
    change(
        runtime,
        now,
        then.topics.contracts,
        note=f"back to version {wanted}",
        force=force,
        check=check,
        wait_s=wait,
        keys=keys,
        as_json=as_json,
        settings=settings_of(then),
        network=network,
        warnings=since,
    )


def earlier(version: int, now: Standing, runtime: Runtime) -> FederationDocument:
    """The document of a version that was in force; the first one is the file of a site that still has it."""
    from mangrove.agent.versioning import text_of
    from mangrove.model.versions.document import FIRST_VERSION, first_document

    if version == FIRST_VERSION:
        first = first_document(runtime.federation)
        if first.line != now.document.line:
            raise InputError(
                "this site was started with other contracts or links than those of the first version",
                hint="mangrove apply FILE, with the first file",
            )
        return first
    document = run_async(text_of(runtime, version))
    if document is None:
        raise InputError(
            f"no gateway keeps the text of version {version}", hint="mangrove apply FILE does it"
        )
    return document


def network_back(
    then: FederationDocument, now: Standing, runtime: Runtime, *, force: bool
) -> tuple[Network | None, tuple[str, ...]]:
    """Domains and links to put in force, None if they stay as they are; and who has joined or left since."""
    from mangrove.model.versions.going_back import gone_back, membership_since, network_then, still_there

    old = network_then(then, now.document, runtime.federation)
    if old is None:
        raise InputError(
            f"the links of version {then.version} are those of the first federation file, and this site was "
            "started when others were in force",
            hint="run it at a site that runs since before, or: mangrove apply FILE, with the file of then",
        )
    before = present_network(now, runtime)
    same = still_there(then.domains, now.document.domains)
    network, since = gone_back(before, old, same), membership_since(before, old, same)
    if network == before:
        return None, since
    refuse_partition(network, before, force=force)
    return network, since
