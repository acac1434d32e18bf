"""Blocks of ports for federation files, held until the test ends."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

FIRST = 20_000
LAST = 30_000
BLOCK = 20
STRIDE = 50


class PortBlocks:
    """Takes blocks of consecutive ports that nobody else has; gives them back at the end.

    A block is claimed without SO_REUSEADDR, which fails where anybody, also another test run, holds one of
    its ports. The option is set afterwards, so that the processes under test can listen there.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []
        self._next = FIRST

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._held:
            each.close()

    def take(self) -> int:
        """The first port of a block that is large enough for a site."""
        while self._next < LAST:
            base, self._next = self._next, self._next + STRIDE
            claimed: list[socket.socket] = []
            try:
                for port in range(base, base + BLOCK):
                    claimed.append(socket.socket())
                    claimed[-1].bind(("127.0.0.1", port))
            except OSError:
                for each in claimed:
                    each.close()
                continue
            for each in claimed:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held += claimed
            return base
        raise AssertionError(f"no {BLOCK} ports in a row are free between {FIRST} and {LAST}")
