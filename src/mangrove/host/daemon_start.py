"""How daemons are started: `python -m mangrove.host.daemon_start MODULE SETTINGS.json`.

A daemon loads some hundreds of modules, and nothing of what they make is ever garbage. So nobody looks for
any meanwhile, nor later on among what was loaded.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def daemon_command(module: str, settings: Path) -> list[str]:
    """The command that runs the `main` of a module with a settings file."""
    return [sys.executable, "-m", __name__, module, str(settings)]


def main() -> None:
    """Load the module that the first argument names, and run it with the others."""
    gc.disable()
    daemon = importlib.import_module(sys.argv.pop(1))
    gc.freeze()
    gc.enable()
    daemon.main()


if __name__ == "__main__":
    main()
