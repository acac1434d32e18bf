"""Processes of ours that a test has left behind."""

from __future__ import annotations

import psutil

OURS = ("nats-server", "mangrove.gateway", "mangrove.agent", "mangrove.testbed", "mangrove.cli")
PATIENCE_S = 5.0


def leftovers() -> list[str]:
    """Brokers, gateways, emulators, recorders and commands below this process, once they had time to end."""
    ours = [child for child in psutil.Process().children(recursive=True) if is_ours(child)]
    _, alive = psutil.wait_procs(ours, timeout=PATIENCE_S)
    return [f"{child.pid}: {' '.join(arguments(child))}" for child in alive]


def is_ours(process: psutil.Process) -> bool:
    """Whether a process is one that this project starts."""
    return any(argument.endswith(OURS[0]) or argument.startswith(OURS[1:]) for argument in arguments(process))


def arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
