"""The SDK is light: programs that only publish and subscribe do not load what reads federation files."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "pydantic",
    "yaml",
    "pyarrow",
    "numpy",
    "mangrove.config",
    "mangrove.testbed",
    "mangrove.broker.kinds",
)


@pytest.mark.parametrize(
    "use", ["import mangrove; mangrove.connect(domain='x')._opening.close()", "import mangrove.client"]
)
def test_the_sdk_loads_no_library_for_configuration(use: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", f"{use}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = told.stdout.split()
    assert "mangrove.host.runtime_file" in loaded
    assert not [name for name in HEAVY if name in loaded]
