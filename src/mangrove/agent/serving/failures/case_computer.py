"""Computes cases in a thread, one after the other, so that the agent goes on meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from mangrove.control.stimuli import CaseComputed, Stimulus
from mangrove.errors import MangroveError
from mangrove.model.plans.case_request import CaseRequest

log = logging.getLogger(__name__)

WITHIN_S = 0.5
"""The best that is found within this time is taken."""
MAX_WAITING = 8


class CaseComputer:
    """Takes requests; what became of each is told as `CaseComputed`."""

    def __init__(self, tell: Callable[[Stimulus], None]) -> None:
        self._tell = tell
        self._requests: asyncio.Queue[CaseRequest] = asyncio.Queue(MAX_WAITING)

    def put(self, request: CaseRequest) -> None:
        """Have a case computed."""
        try:
            self._requests.put_nowait(request)
        except asyncio.QueueFull:
            self._tell(CaseComputed(request, None, "too many others wait to be computed"))

    async def run(self) -> None:
        """Compute, until cancelled; a computation that is under way then ends by itself within its time."""
        while True:
            request = await self._requests.get()
            self._tell(await asyncio.to_thread(_computed, request))


def _computed(request: CaseRequest) -> CaseComputed:
    from mangrove.control.failures.case_computing import computed
    from mangrove.planning.solvers.stop import TimeLimit

    began = time.monotonic()
    try:
        case = computed(request, TimeLimit(time.monotonic, began + WITHIN_S))
    except (MangroveError, ValueError, ArithmeticError) as error:
        log.warning("no case was found: %s", error)
        return CaseComputed(request, None, "the solver found none")
    log.info("a case for %s was computed in %.2f s", request.failed, time.monotonic() - began)
    return CaseComputed(request, case)
