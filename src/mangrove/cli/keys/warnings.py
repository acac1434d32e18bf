"""What an operator should know of the security of a federation that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import MangroveError

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.endpoints import Runtime

UNSECURED = (
    "the federation is not secured (security: none): whoever reaches its ports can read, publish and "
    "pretend to be one of its sites"
)


def key_warnings(runtime: Runtime) -> tuple[str, ...]:
    """Of the keys of a federation that has some: those that end soon, or cannot be read."""
    if not runtime.keys:
        return ()
    from mangrove.host.keys.inspection import inspect_keys

    try:
        return inspect_keys(Path(runtime.keys)).warnings
    except MangroveError as error:
        return (f"the keys cannot be looked at: {error.message}",)


def warn_of_no_security(console: Console) -> None:
    """Say that nobody proves who it is, so that it is not overlooked."""
    console.print(f"[bold red]warning:[/bold red] {UNSECURED}")
