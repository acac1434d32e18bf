"""`mangrove monitor`: the live view of a federation in a browser."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.keys.location import KeysOption
from mangrove.cli.monitoring.watched_source import FileOption, watched_source
from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.host.run_directory import RunDirectory
    from mangrove.model.endpoints import Runtime
    from mangrove.monitor.feed.source import Source
    from mangrove.monitor.web.actions import Actions, Fault

SLOWED_MS = 150.0
DEFAULT_PORT = 8080
READY = "the monitor is at"


def monitor(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0: any that is free.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str, typer.Option(help="Address to listen at. Others than this machine's own show it to the network.")
    ] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    allow_actions: Annotated[
        bool,
        typer.Option("--allow-actions", help="Let who looks also act, with this machine's operator key."),
    ] = False,
    file: FileOption = None,
    keys: KeysOption = None,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a federation in a browser: map, topics, brokers, story and plans. Ctrl-C ends it."""
    from mangrove.cli.optional import require_library

    require_library("nicegui")
    _local_if(allow_actions, host)
    source = watched_source(file, keys, federation, run_dir)
    where = partial(_where, file, federation, run_dir)
    actions = _actions(source, where) if allow_actions else None
    run_async(_serve(source, host, port, actions, open_browser, as_json))


def _where(file: Path | None, federation: str | None, run_dir: Path | None) -> RunDirectory:
    """Where what is done is written down: with the federation that runs here, or else of that name."""
    from mangrove.config import read_federation
    from mangrove.host.run_directory import default_run_directory
    from mangrove.host.runtime_file import find_running_directory

    if file is not None:
        return default_run_directory(read_federation(file).require().name)
    return find_running_directory(federation, run_dir)


async def _serve(
    source: Source,
    host: str,
    port: int,
    actions: Actions | None,
    open_browser: bool,
    as_json: bool,
) -> None:
    from mangrove.monitor.feed.live_feed import LiveFeed
    from mangrove.monitor.web.server import serve

    def ready(address: str) -> None:
        if as_json:
            print_json({"address": address, "actions": actions is not None})
        else:
            acting = "; who looks may act" if actions is not None else ""
            stderr_console().print(f"{READY} {address}{acting} (Ctrl-C ends it)", highlight=False)
        if open_browser:
            open_page(address)

    async with LiveFeed(source) as feed:
        await serve(feed, host=host, port=port, actions=actions, ready=ready)


def open_page(address: str) -> None:
    """Open a browser, if there is a screen for it."""
    import threading
    import webbrowser

    if has_display():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    else:
        stderr_console().print("there is no display here: open the address in a browser", highlight=False)


def has_display() -> bool:
    """Whether a browser would have where to appear."""
    import os
    import sys

    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _local_if(allow_actions: bool, host: str) -> None:
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if allow_actions and not local:
        raise InputError(
            f"--allow-actions at {host}: whoever reaches it could act",
            hint="listen at 127.0.0.1, and let others in by a tunnel that asks who they are",
        )


def _actions(source: Source, where: Callable[[], RunDirectory]) -> Actions:
    """What may be done; InputError if this user has not the operator's key."""
    from mangrove.host.keys.logins.user_login import login_of
    from mangrove.model.security.users import OPERATOR_USER
    from mangrove.monitor.web.actions import Actions

    runtime = source.find()
    for endpoints in runtime.domains.values():
        login = login_of(endpoints.keys, OPERATOR_USER)
        if login is not None:
            login()
    return Actions(where, _emulate)


async def _emulate(runtime: Runtime, first: str, second: str, fault: Fault) -> None:
    """Cut a link, slow it down, or give it back the properties of the federation file."""
    import msgspec

    from mangrove.model.site_pair import link_name, site_pair
    from mangrove.monitor.web.actions import Fault
    from mangrove.testbed.emulated_links import send_shape, shape_of
    from mangrove.testbed.shaping import Shape

    pair = site_pair(first, second)
    link = next((each for each in runtime.federation.links if each.pair == pair), None)
    if link is None or runtime.wan_control is None:
        raise InputError(f"{first[:60]} and {second[:60]} are not joined by an emulated link")
    usual = shape_of(link)
    shapes = {
        Fault.CUT: Shape(black_hole=True),
        Fault.SLOW: msgspec.structs.replace(usual, delay_ms=usual.delay_ms + SLOWED_MS),
        Fault.HEAL: usual,
    }
    await send_shape(runtime.wan_control, link_name(first, second), shapes[fault])
