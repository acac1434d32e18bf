"""`mangrove calibrate`: measure a real nats-server under a factorial experiment, for the job `calibrate`."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import InputError, MangroveError, system_words

if TYPE_CHECKING:
    from mangrove.lake.writer import LakeWriter
    from mangrove.testbed.calibration_load import Combination

DOMAIN = "calibration"


def calibrate(
    lake: Annotated[Path, typer.Option(help="Telemetry lake that the runs are written to.")],
    subscribers: Annotated[str, typer.Option(help="Numbers of subscribers, comma-separated.")] = "1,4,16",
    filters: Annotated[str, typer.Option(help="Numbers of further patterns held.")] = "0,1000,4000",
    sizes: Annotated[str, typer.Option(help="Payloads in bytes.")] = "64,1024",
    messages: Annotated[int, typer.Option(min=1000, help="Messages of each run.")] = 40_000,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each combination.")] = 1,
    broker_type: Annotated[
        str | None, typer.Option(help="Name for this kind of broker. [default: nats-server and its version]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order of the runs.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure the broker at saturation over subscribers × filters × message size."""
    from mangrove.model.telemetry import CALIBRATION_RUNS

    grid = combinations(subscribers, filters, sizes)
    # What is missing, or may not be written, is missed before anything is measured.
    writer = open_lake(lake)
    rows = run_async(measure_grid(grid * repeats, messages, broker_type, seed))
    writer.add(CALIBRATION_RUNS, rows)
    try:
        writer.flush()
    except OSError as error:
        _show(rows, lake, seed, as_json)
        raise MangroveError(
            f"--lake: {lake} does not take the runs: {system_words(error)}",
            hint="what was measured stands above, and is nowhere else; make room, or give another lake",
        ) from error
    _show(rows, lake, seed, as_json)
    if not as_json:
        stderr_console().print(
            f"seed {seed}; next: mangrove pipeline calibrate --input {lake} --output DIR", soft_wrap=True
        )


def open_lake(directory: Path) -> LakeWriter:
    """A writer of the lake's runs; `InputError` if it could write none."""
    from mangrove.lake.writer import LakeWriter
    from mangrove.model.telemetry import CALIBRATION_RUNS

    hint = "give a directory that this user may write"
    table = directory.absolute() / CALIBRATION_RUNS.name
    try:
        there = next(place for place in (table, *table.parents) if place.exists())
        if not there.is_dir():
            raise InputError(f"--lake: {directory}: {there} is a file", hint=hint)
        if not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"--lake: {directory}: nothing may be written in {there}", hint=hint)
        return LakeWriter(directory)
    except OSError as error:
        raise InputError(f"--lake: {directory}: {system_words(error)}", hint=hint) from error


async def measure_grid(
    grid: list[Combination], messages: int, broker_type: str | None, seed: int
) -> list[dict[str, Any]]:
    """One row for each combination, all measured on one broker, in random order."""
    import asyncio
    import random
    import tempfile
    from datetime import UTC, datetime

    from rich.progress import Progress

    from mangrove.broker.nats.server import nats_server
    from mangrove.host.ports import PortReservation
    from mangrove.host.run_directory import RunDirectory
    from mangrove.testbed.calibration_load import measure

    order = list(grid)
    # In random order, so that a machine that slows down does not pass for a slope.
    random.Random(seed).shuffle(order)
    rows: list[dict[str, Any]] = []
    console = stderr_console()
    with (
        tempfile.TemporaryDirectory(prefix="mangrove-calibrate-") as name,
        PortReservation() as ports,
        Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        port = ports.take("127.0.0.1")
        log_file = RunDirectory(Path(name)).log("broker")
        config = f'listen: "127.0.0.1:{port}"\nmax_pending: 268435456\nlog_file: "{log_file}"\n'
        broker = nats_server("broker", config, Path(name))
        await broker.start()
        try:
            kind = broker_type or await asyncio.to_thread(_version)
            task = bar.add_task("runs", total=len(order))
            for point in order:
                assert broker.pid is not None
                result = await asyncio.to_thread(measure, port, broker.pid, point, messages)
                rows.append(
                    {
                        "ts": datetime.now(UTC),
                        "domain": DOMAIN,
                        "broker_type": kind,
                        "replication": float(point.replication),
                        "filters": float(point.filters),
                        "message_bytes": point.message_bytes,
                        "messages": result.messages,
                        "seconds": result.seconds,
                        "processing_time_s": result.seconds / result.messages,
                        "cpu_time_s": result.cpu_s / result.messages,
                    }
                )
                bar.advance(task)
        finally:
            await broker.stop()
    return rows


def _version() -> str:
    import subprocess

    from mangrove.broker.nats.server import nats_server_binary

    text = subprocess.run(
        [nats_server_binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    return f"nats-server-{text.strip().rpartition('v')[2]}"


def combinations(subscribers: str, filters: str, sizes: str) -> list[Combination]:
    """Every combination of what the options of these names list."""
    from mangrove.testbed.calibration_load import Combination

    return [
        Combination(*point)
        for point in product(
            whole_numbers("--subscribers", subscribers, least=1),
            whole_numbers("--filters", filters, least=0),
            whole_numbers("--sizes", sizes, least=1),
        )
    ]


def whole_numbers(option: str, text: str, *, least: int) -> list[int]:
    """The numbers of a comma-separated option, ascending, each once."""
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < least or numbers[-1] > 100_000:
        raise InputError(f"{option}: {text!r}", hint=f"whole numbers from {least} to 100000, e.g. 1,4,16")
    return numbers


def _show(rows: list[dict[str, Any]], lake: Path, seed: int, as_json: bool) -> None:
    from mangrove.cli.tables.table import EXTRA, Table, number_column

    if as_json:
        print_json({"lake": str(lake), "seed": seed, "runs": rows})
        return
    table = Table(
        "Runs",
        number_column("subscribers"),
        number_column("filters"),
        number_column("bytes"),
        number_column("µs/message"),
        number_column("broker's processor µs", EXTRA),
    )
    for row in sorted(rows, key=lambda r: (r["message_bytes"], r["replication"], r["filters"])):
        table.add(
            f"{row['replication']:g}",
            f"{row['filters']:g}",
            str(row["message_bytes"]),
            f"{row['processing_time_s'] * 1e6:.2f}",
            f"{row['cpu_time_s'] * 1e6:.2f}",
        )
    table.show(stdout_console())
