"""When a change of routes is worth its cost, so that nothing goes back and forth.

A set that misses something is left at once for one that misses less, by at least a tenth; but sets whose link
is full leave it one after the other, and then stay for a while. A set that gives
all that was promised is left only for fewer paths that promise it with room to spare, or for paths less than
half as long, and only when the set has been as it is for a while.

Delays follow the load, and the load follows the routes: a deadline that no way can keep under its own load
would make its topic look for a better one for ever. So who moves for the sake of a deadline stays for a
second, and four times as long after each further move of the last minutes.
"""

from __future__ import annotations

import msgspec

from mangrove.overlay.routes.path_choice import Choice
from mangrove.overlay.routes.path_pool import shared
from mangrove.overlay.routes.path_view import PathView

LOOK_EVERY_S = 10.0
"""How often a set is compared with what was promised, though nothing is known to have changed."""
IMPROVE_EVERY_S = 60.0
"""How often at most it is looked whether a set could be had for less."""
HOLD_S = 60.0
"""A set that gives what was promised stays at least so long, and so does one that has left a full link."""
CROWDED_PATIENCE_S = 20.0
"""Sets that share a full link leave it one after the other, at times spread over so long: many times the few
seconds that it takes until all know what a link carries."""
SPARE = 0.5
"""Fewer paths must be down for at most this part of the time that the promise allows."""
MUCH_LESS = 0.5
LESS = 0.8
FIRST_STAY_S = 1.0
MAX_STAY_S = 60.0
UNREST_HALF_LIFE_S = 120.0


class Unrest(msgspec.Struct):
    """How often the routes of a topic to a destination moved of late because of their delay alone."""

    moves: float = 0.0
    moved_at: float = float("-inf")
    stay_until: float = float("-inf")

    def may_move(self, now: float) -> bool:
        """Whether a delay is reason enough to move now."""
        return now >= self.stay_until

    def moved(self, now: float) -> None:
        """A delay was reason enough."""
        recent = (
            float(self.moves * 0.5 ** ((now - self.moved_at) / UNREST_HALF_LIFE_S)) if self.moves else 0.0
        )
        self.stay_until = now + min(MAX_STAY_S, FIRST_STAY_S * 4.0**recent)
        self.moves, self.moved_at = recent + 1.0, now

    def forgive(self) -> None:
        """Links have come or gone: it was not the load alone (flapping links are damped themselves)."""
        self.moves, self.stay_until = 0.0, float("-inf")


def crowded(view: PathView, choice: Choice) -> bool:
    """Whether the contract's rate does not fit on one of its paths."""
    return not all(view.has_room(path) for path in choice.paths)


def worth_changing(view: PathView, current: Choice, found: Choice, *, full: bool) -> bool:
    """Whether something is missed that the other choice gives, or gives more of.

    A rate that does not fit any more is no reason before it is this set's turn to leave (`full`): else all
    that share the link would leave at once, and meet again on the next.
    """
    if not current.paths or found.better_than(current, but_for="" if full else "rate_mbps"):
        return True
    if current.better_than(found):
        return False
    if full and (not crowded(view, found) or _cost(view, found) < LESS * _cost(view, current)):
        return True
    asks_for_number = view.contract.resiliency is None
    return (
        asks_for_number
        and len(found.paths) >= len(current.paths)
        and shared(found.paths) < shared(current.paths)
    )


def may_improve(view: PathView, current: Choice, unchanged_s: float) -> bool:
    """Whether it is worth the effort of looking for something that costs less: a bound, cheaply."""
    if unchanged_s < HOLD_S or not current.paths:
        return False
    if view.contract.resiliency is not None and len(current.paths) > view.contract.paths:
        return True
    return len(current.paths) * view.shortest_ms() < MUCH_LESS * _cost(view, current)


def worth_improving(view: PathView, current: Choice, found: Choice, unchanged_s: float) -> bool:
    """Whether as much can be had for clearly less."""
    if unchanged_s < HOLD_S or not found.paths or current.better_than(found):
        return False
    promise = view.contract.resiliency
    spare = promise is None or 1 - view.resiliency(found.paths) <= SPARE * (1 - promise)
    if current.unmet:
        spare = True
    if spare and len(found.paths) < len(current.paths) and len(found.paths) >= view.contract.paths:
        return True
    same = len(found.paths) == len(current.paths) and shared(found.paths) <= shared(current.paths)
    return same and spare and _cost(view, found) < MUCH_LESS * _cost(view, current)


def _cost(view: PathView, choice: Choice) -> float:
    return sum(view.cost(path) for path in choice.paths)
