"""`mangrove link`: disturb an emulated link of a federation that runs on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError


def link(
    first: Annotated[str, typer.Argument(help="One end.")],
    second: Annotated[str, typer.Argument(help="The other end.")],
    delay_ms: Annotated[float, typer.Option(min=0, help="One-way delay.")] = 0.0,
    jitter_ms: Annotated[float, typer.Option(min=0, help="Largest random delay on top.")] = 0.0,
    bandwidth_mbps: Annotated[float | None, typer.Option(min=0.001, help="Megabits per second.")] = None,
    loss_ratio: Annotated[float, typer.Option(min=0, max=0.99, help="Share of lost segments.")] = 0.0,
    black_hole: Annotated[bool, typer.Option("--black-hole", help="Swallow everything, silently.")] = False,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give an emulated link new properties; what is not named goes back to none."""
    import math

    import msgspec

    from mangrove.host.runtime_file import find_running
    from mangrove.model.site_pair import link_name, site_pair
    from mangrove.testbed.emulated_links import send_shape
    from mangrove.testbed.shaping import Shape

    for option, value in (
        ("--delay-ms", delay_ms),
        ("--jitter-ms", jitter_ms),
        ("--bandwidth-mbps", bandwidth_mbps),
        ("--loss-ratio", loss_ratio),
    ):
        if value is not None and not math.isfinite(value):
            raise InputError(f"{option} {value}: a link needs a number")
    runtime = find_running(federation, run_dir)
    if runtime.wan_control is None:
        raise InputError("the links of this federation are real, not emulated")
    shape = Shape(
        delay_ms=delay_ms,
        jitter_ms=jitter_ms,
        bandwidth_mbps=bandwidth_mbps,
        loss_ratio=loss_ratio,
        black_hole=black_hole,
    )
    run_async(send_shape(runtime.wan_control, link_name(first, second), shape))
    if as_json:
        print_json({"link": site_pair(first, second), **msgspec.to_builtins(shape)})
    else:
        stderr_console().print(f"{first} – {second} is now {shape}")
