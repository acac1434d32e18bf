"""Processes that hang: they run, and do nothing that they are asked to."""

from __future__ import annotations

import os
import signal
import time

import psutil


def freeze(pid: int) -> None:
    """Stop a process and wait until it has stopped; a signal sent before that would still reach it."""
    os.kill(pid, signal.SIGSTOP)
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
