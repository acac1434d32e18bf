"""Which federation a command of this folder looks at, as its options say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.monitor.feed.source import Source

FileOption = Annotated[
    Path | None,
    typer.Option("--file", help="Look at the sites of this federation file, wherever they run, with --keys."),
]


def watched_source(
    file: Path | None, keys: Path | None, federation: str | None, run_dir: Path | None
) -> Source:
    """What runs here, or what a file tells of; InputError for a mixture."""
    from mangrove.monitor.feed.source import Elsewhere, OnThisMachine

    if file is None:
        if keys is not None:
            raise InputError(
                "--keys is for --file", hint="what runs on this machine knows where its keys are"
            )
        return OnThisMachine(federation, run_dir)
    if federation is not None or run_dir is not None:
        raise InputError("--file excludes --federation and --run-dir", hint="give one of them")
    from mangrove.cli.keys.location import key_directory
    from mangrove.config import read_federation

    read = read_federation(file).require()
    secured = read.security.secured or keys is not None
    return Elsewhere(read, key_directory(read, keys) if secured else None)
