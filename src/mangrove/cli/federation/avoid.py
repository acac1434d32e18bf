"""`mangrove avoid`: declare a region endangered, so that topics with contracts leave it before it fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.agent.avoidance import Avoidance
    from mangrove.model.endpoints import Runtime

WAIT_S = 5.0
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


def avoid(
    federation: Annotated[
        str | None, typer.Argument(help="Which federation, if several run on this machine.")
    ] = None,
    centre: Annotated[str | None, typer.Option(help="LAT,LON of the endangered region.")] = None,
    radius: Annotated[float | None, typer.Option(help="Its radius in km.")] = None,
    duration: Annotated[
        str | None, typer.Option("--for", help="How long: 90s, 30m, 2h, 1d. [default: 24h]")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What to call it. [default: from the place and radius]")
    ] = None,
    end: Annotated[str | None, typer.Option(help="The region of this name is safe again.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what is endangered.")] = False,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Declare a region endangered: topics with contracts leave it, and return when it is safe."""
    from mangrove.agent.avoidance import look, settle, tell
    from mangrove.host.runtime_file import find_running
    from mangrove.model.questions.endangered import DEFAULT_FOR_S, AvoidRequest

    if sum((centre is not None, end is not None, listed)) != 1:
        raise InputError("say what to do: --centre LAT,LON --radius KM, or --end NAME, or --list")
    request = None
    if end is not None:
        request = AvoidRequest(name=end)
    elif centre is not None:
        if radius is None:
            raise InputError("--radius is missing", hint="mangrove avoid --centre 40.7,-74.0 --radius 200")
        place = _place(centre)
        request = AvoidRequest(
            name=name or _name(place, radius),
            centre=place,
            radius_km=radius,
            for_s=DEFAULT_FOR_S if duration is None else _seconds(duration),
        )
    if request is not None:
        request.check()
    runtime = find_running(federation, run_dir)

    async def act() -> Avoidance:
        if request is None:
            return await look(runtime)
        await tell(runtime, request)
        return await settle(runtime, request.name, endangered=request.centre is not None, timeout_s=WAIT_S)

    found = run_async(act())
    if as_json:
        print_json(_document(found))
    else:
        _show(runtime, found)


def _place(text: str) -> tuple[float, float]:
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--centre {text!r} is not a place", hint="write --centre 40.7,-74.0") from None
    return latitude, longitude


def _name(place: tuple[float, float], radius: float) -> str:
    """A name for a region that was given none: its place, for people to recognise."""
    latitude, longitude = place
    north, east = ("N" if latitude >= 0 else "S"), ("E" if longitude >= 0 else "W")
    return f"{abs(latitude):.1f}{north}-{abs(longitude):.1f}{east}-{radius:.0f}km".replace(".", "_")


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InputError(f"--for {text!r} is not a time", hint="write 90s, 30m, 2h or 1d")
    return float(found[1]) * _UNITS_S[found[2] or "s"]


def _document(found: Avoidance) -> dict[str, object]:
    import msgspec

    return {
        "endangered": [msgspec.to_builtins(region) for region in found.regions],
        "exposed": [{"from": domain, **msgspec.to_builtins(path)} for domain, path in found.exposed],
        "settled": found.settled,
        "silent": list(found.silent),
    }


def _show(runtime: Runtime, found: Avoidance) -> None:
    from mangrove.cli.federation.region_tables import endangered_table, exposed_table

    console = stdout_console()
    if not found.regions:
        console.print(f"nothing is endangered in {runtime.federation.name}")
    else:
        endangered_table(found.regions).show(console)
        exposed = exposed_table(found.exposed)
        if exposed:
            exposed.show(console)
        else:
            console.print("no topic with a contract leads through it")
    for domain in found.silent:
        console.print(f"[yellow]warning:[/yellow] the gateway of {domain} does not answer")
    if not found.settled:
        console.print("[yellow]warning:[/yellow] not everything has moved yet; see: mangrove avoid --list")
