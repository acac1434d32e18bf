"""The process in which a transform runs: takes messages, answers each, and keeps to its memory.

Started by `worker_process`; what hangs or dies here is found out there. Results are sent when a portion is
done, or as soon as it has taken a moment; how many messages are done is written down after each.
"""

from __future__ import annotations

import mmap
import os
import resource
import socket
import sys
from collections.abc import Mapping
from time import monotonic

import msgspec

from mangrove.broker.message_heads import decode_head
from mangrove.gateway.mediation.exchange import (
    COUNT_BYTES,
    LEAVES,
    LENGTH_BYTES,
    Failure,
    Given,
    Outcome,
    Ready,
    Result,
    WorkerSettings,
    framed,
)
from mangrove.mediation.transformation import Apply, TransformError, UnfitMessageError, made

MAX_HELD_S = 0.002
MAX_HELD_BYTES = 1 << 20
"""Results wait no longer than this for those after them, nor when they are so much."""
MAX_DETAIL = 300
_PAGE = resource.getpagesize()
_NOTHING: Mapping[str, str] = {}
_LEFT_OUT = Result(Outcome.LEFT_OUT)
_NO_MEMORY = Result(Outcome.FAILED, b"", Failure.NO_MEMORY)


class Worker:
    """One transform, and the socket to the gateway."""

    def __init__(self, channel: socket.socket, count: mmap.mmap) -> None:
        self._channel = channel
        self._count = count
        self._done = 0
        self._given = msgspec.msgpack.Decoder(list[Given])
        self._encode = msgspec.msgpack.Encoder().encode

    def run(self) -> None:
        """Serve until the gateway closes the socket."""
        first = self._read()
        if first is None:
            return
        settings = msgspec.msgpack.decode(first, type=WorkerSettings)
        try:
            apply = made(settings.transform)
            problem = ""
        except TransformError as error:
            problem = error.message
        except ModuleNotFoundError as error:
            problem = f"the package {error.name} is not installed (mangrove-messaging[transforms])"
        self._channel.sendall(framed(self._encode(Ready(problem))))
        if problem:
            return
        limit_memory(settings.transform.memory_mb << 20)
        headers = bool(settings.transform.function)
        while (frame := self._read()) is not None:
            if not self._portion(self._given.decode(frame), apply, settings.max_bytes, headers=headers):
                return

    def _portion(self, messages: list[Given], apply: Apply, max_bytes: int, *, headers: bool) -> bool:
        """Transform some messages; whether the process is fit for more."""
        results: list[Result] = []
        held_bytes = 0
        began = monotonic()
        for given in messages:
            result = transformed(given, apply, max_bytes, headers=headers)
            results.append(result)
            self._done += 1
            self._count[:COUNT_BYTES] = self._done.to_bytes(COUNT_BYTES, "little")
            if result is _NO_MEMORY:
                self._count[:COUNT_BYTES] = (self._done | LEAVES).to_bytes(COUNT_BYTES, "little")
                self._send(results)
                return False  # whatever was kept is given back with the process
            held_bytes += len(result.payload)
            if held_bytes > MAX_HELD_BYTES or monotonic() - began > MAX_HELD_S:
                self._send(results)
                results, held_bytes = [], 0
                began = monotonic()
        if results:
            self._send(results)
        return True

    def _send(self, results: list[Result]) -> None:
        self._channel.sendall(framed(self._encode(results)))

    def _read(self) -> bytes | None:
        length = self._exactly(LENGTH_BYTES)
        return None if length is None else self._exactly(int.from_bytes(length, "big"))

    def _exactly(self, size: int) -> bytes | None:
        parts, left = [], size
        while left:
            part = self._channel.recv(min(left, 1 << 20))
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def transformed(given: Given, apply: Apply, max_bytes: int, *, headers: bool) -> Result:
    """What becomes of a message; a function of the user's may raise whatever it likes."""
    try:
        payload = apply(given.payload, given.subject, decode_head(given.head) if headers else _NOTHING)
    except MemoryError:
        return _NO_MEMORY
    except UnfitMessageError as error:
        return Result(Outcome.FAILED, b"", Failure.RAISED, _writable(error.message))
    except BaseException as error:  # not even SystemExit ends the process
        return Result(Outcome.FAILED, b"", Failure.RAISED, _told(error))
    if payload is None:
        return _LEFT_OUT
    if len(payload) > max_bytes:
        detail = f"{len(payload)} bytes, and {max_bytes} are allowed"
        return Result(Outcome.FAILED, b"", Failure.TOO_LARGE, detail)
    return Result(Outcome.TRANSFORMED, payload)


def _told(error: BaseException) -> str:
    """An exception in words, though its own words may fail."""
    try:
        return _writable(f"{type(error).__name__}: {error}")
    except Exception:
        return _writable(type(error).__name__)


def _writable(text: str) -> str:
    """What fits into an answer. An exception may quote half a character of a message, which cannot be sent:
    to end over that would cost others their messages."""
    return text[:MAX_DETAIL].encode(errors="backslashreplace").decode()[:MAX_DETAIL]


def limit_memory(size_bytes: int) -> None:
    """Let the process grow by so much beyond what it is now, as far as its gateway itself may."""
    try:
        with open("/proc/self/statm", "rb") as pages:  # noqa: PTH123 (a path object would be loaded for it)
            present = int(pages.read().split()[0]) * _PAGE
    except OSError:
        present = 0
    limit, allowed = present + size_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]
    if allowed != resource.RLIM_INFINITY:
        limit = min(limit, allowed)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve the gateway by what the arguments name: a socket, and the counter's file."""
    channel, count = map(int, sys.argv[1:3])
    for number in (channel, count):
        os.set_inheritable(number, False)
    with socket.socket(fileno=channel) as talking, mmap.mmap(count, COUNT_BYTES) as counter:
        Worker(talking, counter).run()


if __name__ == "__main__":
    main()
