"""What an operator should know of the security of a federation that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import MangroveError

if TYPE_CHECKING:
    from mangrove.model.endpoints import Runtime

UNSECURED = (
    "the federation is not secured (security: none): whoever reaches its ports can read, publish and "
    "pretend to be one of its sites"
)


def security_warnings(runtime: Runtime) -> tuple[str, ...]:
    """That there are no keys; or that some end soon, or cannot be read."""
    if not runtime.keys:
        return (UNSECURED,)
    from mangrove.host.keys.inspection import inspect_keys

    try:
        return inspect_keys(Path(runtime.keys)).warnings
    except MangroveError as error:
        return (f"the keys cannot be looked at: {error.message}",)
