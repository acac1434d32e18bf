"""Memory and processor time of a process with all its children, while it runs."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
INTERVAL_S = 0.5


@dataclass(slots=True)
class Weight:
    """What a tree of processes takes, by the name of the program where that matters."""

    total_bytes: int = 0
    java_bytes: int = 0
    processor_s: float = 0.0


def weigh(root: int) -> Weight:
    """A process and its descendants: shared pages counted once (PSS), time with that of ended children."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                before, _, after = Path(f"/proc/{entry.name}/stat").read_text().rpartition(")")
            except OSError:
                continue
            fields = after.split()
            number = int(entry.name)
            names[number] = before.partition("(")[2]
            parents[number] = int(fields[1])
            ticks[number] = sum(map(int, fields[11:15]))
    wanted = {root} & parents.keys()
    while grown := {child for child, parent in parents.items() if parent in wanted} - wanted:
        wanted |= grown
    found = Weight(processor_s=sum(ticks[each] for each in wanted) / TICKS)
    for each in wanted:
        size = _bytes(each)
        found.total_bytes += size
        found.java_bytes += size if names[each] == "java" else 0
    return found


def weighed(command: list[str], checkout: Path) -> dict[str, Any]:
    """Run a command with the source of a checkout: its answer, and the most that its processes took."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout}/src{os.pathsep}{checkout}"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    seen: list[Weight] = [Weight()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(INTERVAL_S):
            seen.append(weigh(process.pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        answer, errors = process.communicate()
    finally:
        done.set()
        watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {errors[-2000:]}")
    return {
        "answer": answer,
        "peak_bytes": max(each.total_bytes for each in seen),
        "java_bytes": max(each.java_bytes for each in seen),
        "worker_bytes": max(each.total_bytes - each.java_bytes for each in seen),
        "processor_s": max(each.processor_s for each in seen),
    }


def _bytes(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0
