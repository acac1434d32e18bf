"""A transform tried on one message, in a process and within the limits that a gateway gives it."""

from __future__ import annotations

import asyncio
from time import monotonic

import msgspec

from mangrove.gateway.mediation.exchange import Failure, Given, Outcome, Result, WorkerSettings
from mangrove.gateway.mediation.worker_process import WorkerFailedError, WorkerProcess
from mangrove.model.mediation.transform import Transform


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the message, and how long that took."""

    result: Result
    took_s: float


async def tried(transform: Transform, given: Given, max_bytes: int) -> Trial:
    """Transform one message; nothing it does outlives the call."""
    answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def results(found: list[Result]) -> bool:
        if found and not answered.done():
            answered.set_result(found[0])
        return True

    def lost() -> None:
        results([_failed(Failure.DIED)])

    limit = min(transform.max_bytes or max_bytes, max_bytes)
    worker = WorkerProcess(WorkerSettings(transform=transform, max_bytes=limit), results, lost)
    began = monotonic()
    try:
        await worker.start()
        began = monotonic()
        worker.give([given])
        async with asyncio.timeout(transform.time_ms / 1000):
            result = await answered
    except WorkerFailedError as error:
        result = _failed(Failure.NOT_STARTED, error.message)
    except TimeoutError:
        result = _failed(Failure.TOO_LONG, f"{transform.time_ms:g} ms are allowed")
    finally:
        took_s = monotonic() - began
        await worker.end()
    return Trial(result=result, took_s=took_s)


def _failed(failure: Failure, detail: str = "") -> Result:
    return Result(Outcome.FAILED, b"", failure, detail)
