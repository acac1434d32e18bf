"""The transforms of the document in force: who runs them is there as soon as there are any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.mediation.mediation import Mediation
from mangrove.model.mediation.figures import TransformFigures
from mangrove.overlay.engine import OverlayEngine


class Transforms:
    """Makes the mediation of a gateway, and lets it run."""

    def __init__(self, engine: OverlayEngine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._tasks: asyncio.TaskGroup | None = None
        self.mediation = self._make() if engine.federation.transforms else None
        """None as long as there never was a transform."""

    def _make(self) -> Mediation:
        return Mediation(self._engine.federation, self._engine.rules, self._ledger)

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Run those that there are, and all that come."""
        self._tasks = tasks
        if self.mediation is not None:
            tasks.create_task(self.mediation.run(), name="transforms")

    def adopt(self, mediate: Callable[[Mediation], None]) -> None:
        """Transforms may be other ones; where there were none, whoever runs them begins (`mediate`)."""
        transforms = self._engine.federation.transforms
        if self.mediation is not None:
            self.mediation.transforms_changed(transforms)
        elif transforms:
            self.mediation = self._make()
            mediate(self.mediation)
            if self._tasks is not None:
                self._tasks.create_task(self.mediation.run(), name="transforms")

    def figures(self) -> dict[str, TransformFigures] | None:
        """What was counted, by transform."""
        return None if self.mediation is None else self.mediation.figures()
