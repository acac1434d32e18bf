"""Looks where pipelines leave plans, and hands each to the brain once, and again when it has changed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from mangrove.control.stimuli import PlanFound, Stimulus
from mangrove.model.plans.packing import MAX_DOCUMENT_BYTES
from mangrove.model.plans.rules import PlanPolicy, PlanRules

log = logging.getLogger(__name__)

LOOK_S = 2.0
MAX_FILES = 1_000
"""Files that are looked at; those with the latest changes."""
SUFFIX = ".json"

Stamp = tuple[int, int]
"""When a file was changed, and its size: a half-written one has another when it is whole."""


class PlanDirectory:
    """Only a leader looks; a new one is told of everything that is there, and knows what it had before."""

    def __init__(
        self,
        rules: PlanRules,
        tell: Callable[[Stimulus], None],
        leads: Callable[[], int],
        refused: Counter[str],
    ) -> None:
        """`leads` gives the term in which this agent leads, or 0."""
        self._directory = Path(rules.directory) if rules.directory else None
        self._looks = rules.policy is not PlanPolicy.MANUAL
        self._tell = tell
        self._leads = leads
        self._refused = refused
        self._told: dict[str, Stamp] = {}
        self._term = 0
        self._warned = ""

    async def run(self) -> None:
        """Look, until cancelled; returns at once where nothing is to be looked for."""
        while self._directory is not None and self._looks:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Tell of what is new, if this agent leads."""
        term = self._leads()
        if not term or self._directory is None:
            return
        if term != self._term:
            self._term = term
            self._told.clear()
        fresh = await asyncio.to_thread(self._fresh, self._directory)
        for name, stamp, document in fresh:
            if self._leads() != term:
                return
            self._told[name] = stamp
            self._tell(PlanFound(name, document))

    def _fresh(self, directory: Path) -> list[tuple[str, Stamp, bytes]]:
        """Files that were not told of as they are, oldest first."""
        found: list[tuple[str, Stamp, bytes]] = []
        try:
            stamps = dict(_stamps(directory))
        except OSError as error:
            if self._warned != str(error):
                log.warning("plans: %s cannot be looked at: %s", directory, error)
            self._warned = str(error)
            return found
        self._warned = ""
        self._told = {name: stamp for name, stamp in self._told.items() if name in stamps}
        latest = sorted(stamps.items(), key=lambda each: each[1])[-MAX_FILES:]
        for name, stamp in latest:
            if self._told.get(name) == stamp:
                continue
            if stamp[1] > MAX_DOCUMENT_BYTES:
                self._refused["plans that are too large"] += 1
                self._told[name] = stamp
                continue
            try:
                found.append((name, stamp, (directory / name).read_bytes()))
            except OSError:
                continue  # it is gone, or not ours yet; the next look tells
        return found


def _stamps(directory: Path) -> Iterator[tuple[str, Stamp]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and entry.is_file():
                status = entry.stat()
                yield entry.name, (status.st_mtime_ns, status.st_size)
