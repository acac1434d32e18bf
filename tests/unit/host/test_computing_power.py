"""How much computing power a machine says it has."""

from __future__ import annotations

import os
from pathlib import Path

from mangrove.host.computing_power import ASSUMED_MHZ, computing_power


def test_it_is_cores_times_clock_and_something_always(tmp_path: Path) -> None:
    cores = os.cpu_count() or 1
    told = tmp_path / "cpuinfo"
    told.write_text("processor : 0\ncpu MHz\t\t: 2600.5\nprocessor : 1\ncpu MHz\t\t: 3000.0\n")
    assert computing_power(told) == cores * 3000.0
    told.write_text("cpu MHz : nonsense\n")
    assert computing_power(told) == cores * ASSUMED_MHZ
    assert computing_power(tmp_path / "none") == cores * ASSUMED_MHZ
    assert computing_power() > 0
