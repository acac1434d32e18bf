"""Ids of messages that passed lately, by subject: of two copies of a message only the first passes.

Ids are kept in two generations. A generation ends after some seconds, or when it is full, and the one before
it is forgotten as a whole: so memory is bounded, every id is known for as long as one generation lasts, and a
run of messages of which none is known costs a few operations on sets.
"""

from __future__ import annotations

GENERATION_S = 5.0
GENERATION_IDS = 1 << 18
"""Of all subjects together: at 100,000 messages a second it lasts for more than two seconds."""

Kind = tuple[str, tuple[str, ...]]
"""A subject, and the queue groups that a message is for: copies for others are no copies of it."""


class KnownIds:
    """The ids of one subject."""

    __slots__ = ("_all", "_older", "_younger", "retired")

    def __init__(self, every: RecentIds) -> None:
        self._all = every
        self._younger: set[bytes] = set()
        self._older: set[bytes] = set()
        self.retired = False
        """Whether nothing is known any more, and another one may stand in its place."""

    def note(self, ids: list[bytes]) -> set[bytes]:
        """Those of some ids that were not known; from now on they are."""
        new = self.unknown(set(ids))
        self._younger |= new
        self._all.noted += len(new)
        return new

    def unknown(self, ids: set[bytes]) -> set[bytes]:
        """Those of some ids that are not known."""
        # Both differences look at these alone, however many are known.
        return (ids - self._younger) - self._older

    def is_new(self, identity: bytes) -> bool:
        """Note an id; False if it is known."""
        if identity in self._younger or identity in self._older:
            return False
        self._younger.add(identity)
        self._all.noted += 1
        return True

    def age(self) -> bool:
        """A generation is over; whether nothing is left."""
        self._older, self._younger = self._younger, set()
        self.retired = not self._older
        return self.retired


class RecentIds:
    """The ids of all mirrored subjects in one direction."""

    def __init__(self, *, generation_s: float = GENERATION_S, generation_ids: int = GENERATION_IDS) -> None:
        self._generation_s = generation_s
        self._generation_ids = generation_ids
        self._kinds: dict[Kind, KnownIds] = {}
        self._began_at = 0.0
        self.noted = 0
        """In the present generation."""
        self.repeated = 0
        """Copies that did not pass."""

    def of(self, kind: Kind) -> KnownIds:
        """The ids of one kind; valid until it is retired."""
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = KnownIds(self)
        return known

    def find(self, kind: Kind) -> KnownIds | None:
        """The ids of one kind, if there are any."""
        return self._kinds.get(kind)

    def age(self, now: float) -> None:
        """Begin another generation, if it is time."""
        if self.noted < self._generation_ids and now - self._began_at < self._generation_s:
            return
        self._began_at = now
        self.noted = 0
        self._kinds = {kind: known for kind, known in self._kinds.items() if not known.age()}
