"""What the commands of `mangrove evaluate` share: seeds, pictures, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mangrove.cli.output import print_json, stderr_console
from mangrove.errors import EXIT_NEGATIVE, InputError

SeedsOption = Annotated[int, typer.Option("--seeds", help="Number of runs; each is a seed of its own.")]
SeedOption = Annotated[int, typer.Option("--seed", help="First seed; the others follow it.")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Draw the result into this PNG file.")]


def seed_range(first: int, count: int) -> list[int]:
    """The seeds that two options ask for."""
    if count < 1 or first < 0:
        raise InputError(f"--seeds must be at least 1 and --seed at least 0, not {count} and {first}")
    return list(range(first, first + count))


def told(seeds: tuple[int, ...]) -> str:
    """Seeds in words."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def plain(value: object) -> dict[str, object]:
    """A dataclass as JSON types."""
    import msgspec

    document = msgspec.to_builtins(value, str_keys=True)
    assert isinstance(document, dict)
    return document


def report(
    experiment: str,
    document: dict[str, object],
    missed: list[str],
    show: Callable[[], None],
    *,
    as_json: bool,
) -> None:
    """Give the result, for programs or for people, and end as `conclude` does."""
    if as_json:
        print_json({"experiment": experiment, **document, "missed": missed})
    else:
        show()
    conclude(missed)


def conclude(missed: list[str]) -> None:
    """Tell what did not come out as it should, and end with the exit code for that."""
    for line in missed:
        stderr_console().print(f"[red]missed:[/red] {line}", soft_wrap=True)
    if missed:
        raise typer.Exit(EXIT_NEGATIVE)
