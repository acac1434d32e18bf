"""An agent starts fast: what it needs for a rare decision is loaded when that is due."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "scipy", "pydantic", "yaml", "typer", "rich", "pyarrow", "pymoo")


def test_an_agent_starts_without_the_heavy_libraries() -> None:
    look = f"import sys, mangrove.agent.daemon; print([each for each in {HEAVY!r} if each in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
