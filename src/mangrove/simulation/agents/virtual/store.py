"""A store that outlives agents, and is slow or away at times."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mangrove.control.instructions import Store
from mangrove.control.stimuli import Stored, StoreFailed
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.simulation.agents.virtual.world import World

TIMEOUT_S = 2.0


class VirtualStore:
    """The buckets of one domain. A write that fails may have come about nevertheless."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.away = False
        self.term = 0
        self.values: dict[str, dict[str, bytes]] = {"directory": {}, "sessions": {}}

    def write(self, store: Store, tell: Callable[[Stored | StoreFailed], None]) -> None:
        """Carry out a write, and tell what became of it."""
        chance = self._world.random.random()
        if not self.away or chance < 0.3:
            self._world.after(self._world.random.uniform(0.001, 0.05), lambda: self._apply(store))
        if self.away:
            failure = StoreFailed(store.write, "the store is away")
            self._world.after(TIMEOUT_S, lambda: tell(failure))
        else:
            self._world.after(self._world.random.uniform(0.05, 0.1), lambda: tell(Stored(store.write)))

    def _apply(self, store: Store) -> None:
        for write in store.writes:
            bucket = self.values[write.bucket]
            if write.value is None:
                bucket.pop(write.key, None)
            else:
                bucket[write.key] = write.value

    def directory(self) -> tuple[DirectoryRecord, ...]:
        """All records."""
        values = self.values["directory"].values()
        return tuple(msgspec.json.decode(value, type=DirectoryRecord) for value in values)

    def sessions(self) -> tuple[bytes, ...]:
        """All that is stored of sessions."""
        return tuple(self.values["sessions"].values())
