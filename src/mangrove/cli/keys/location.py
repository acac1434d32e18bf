"""Where the keys of a federation are on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mangrove.model.federation import Federation

KeysOption = Annotated[
    Path | None,
    typer.Option("--keys", help="The key directory. [default: as the file says, or in the run directory]"),
]


def key_directory(federation: Federation, keys: Path | None, run_dir: Path | None = None) -> Path:
    """Where the user says; else where the federation file says; else in the run directory."""
    from mangrove.host.run_directory import RunDirectory, default_run_directory

    if keys is not None:
        return keys.absolute()
    if federation.security.keys:
        return Path(federation.security.keys)
    run = RunDirectory(run_dir) if run_dir else default_run_directory(federation.name)
    return run.keys.absolute()
