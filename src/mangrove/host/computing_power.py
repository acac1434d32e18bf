"""How much computing power this machine has, for machines of which nothing better is known."""

from __future__ import annotations

import os
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
ASSUMED_MHZ = 1000.0
"""Where the clock cannot be read, cores alone count."""


def computing_power(cpu_info: Path = CPU_INFO) -> float:
    """Cores × clock, in MHz."""
    return (os.cpu_count() or 1) * _clock_mhz(cpu_info)


def _clock_mhz(cpu_info: Path) -> float:
    try:
        lines = cpu_info.read_text(errors="replace").splitlines()
    except OSError:
        return ASSUMED_MHZ
    found = [line.partition(":")[2] for line in lines if line.startswith("cpu MHz")]
    try:
        return max(map(float, found), default=ASSUMED_MHZ)
    except ValueError:
        return ASSUMED_MHZ
