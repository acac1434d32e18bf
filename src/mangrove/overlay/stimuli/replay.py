"""Tell an engine again what another one was told, and compare how it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from mangrove.model.events.event_log import Event
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.sides.accounts import InvariantError
from mangrove.overlay.stimuli.stimulus import Outcome, Stimulus, digest
from mangrove.overlay.trust.recorded_trust import OtherQuestionError

MAX_DIFFERENCES = 10


class Difference(msgspec.Struct, frozen=True):
    """A stimulus that the engine answered otherwise than the one that was recorded."""

    position: int
    stimulus: Stimulus
    outcome: Outcome


class Replay(msgspec.Struct):
    """What came of a replay."""

    stimuli: Counter[str] = msgspec.field(default_factory=Counter)
    first_at: float | None = None
    last_at: float | None = None
    differing: int = 0
    differences: list[Difference] = msgspec.field(default_factory=list)
    """The first ones."""
    events: list[Event] = msgspec.field(default_factory=list)

    @property
    def identical(self) -> bool:
        """Whether every answer was the same."""
        return not self.differing

    @property
    def count(self) -> int:
        """How many stimuli there were."""
        return self.stimuli.total()


def replay(engine: OverlayEngine, recorded: Iterable[tuple[Stimulus, int]]) -> Replay:
    """Apply recorded stimuli with the digests of their outcomes to an engine in the state before them."""
    found = Replay()
    for position, (stimulus, expected) in enumerate(recorded):
        found.stimuli[type(stimulus).__name__] += 1
        now = getattr(stimulus, "now", None)
        if now is not None:
            found.first_at = now if found.first_at is None else found.first_at
            found.last_at = now
        outcome: Outcome = None
        try:
            outcome = stimulus.apply(engine)
            same = digest(outcome) == expected
        except InvariantError as error:
            raise InvariantError(f"at stimulus {position} ({stimulus}): {error.message}") from None
        except OtherQuestionError:
            same = False
        if not same:
            found.differing += 1
            if len(found.differences) < MAX_DIFFERENCES:
                found.differences.append(Difference(position, stimulus, outcome))
        found.events += engine.take_events()
    engine.validate()
    return found
