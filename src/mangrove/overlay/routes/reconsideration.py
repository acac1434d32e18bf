"""Whether the routes of a set should stay or be others: what is looked at when, and what is done about it."""

from __future__ import annotations

from zlib import crc32

from mangrove.overlay.routes.damping import (
    CROWDED_PATIENCE_S,
    HOLD_S,
    IMPROVE_EVERY_S,
    LOOK_EVERY_S,
    Unrest,
    crowded,
    may_improve,
    worth_changing,
    worth_improving,
)
from mangrove.overlay.routes.establishment import RouteSet
from mangrove.overlay.routes.path_choice import Choice, choose_paths
from mangrove.overlay.routes.path_pool import shared
from mangrove.overlay.routes.path_view import PathView


def better_choice(
    view: PathView, current: Choice, routes: RouteSet, unrest: Unrest, now: float, *, improve: bool
) -> Choice:
    """What should be used from now on: what is, or something that is better by enough.

    With `improve` also something that gives as much for less; then, while nothing is known to have changed,
    the effort is made only now and then.
    """
    full = _should_leave(view, current, routes, now)
    if full:
        routes.left_full_at, routes.crowded_until = now, None
    lately = improve and now - routes.tried_at < IMPROVE_EVERY_S
    missing = bool(current.unmet) or _overlapping(view, current)
    if not current.paths or full or (missing and not lately):
        routes.tried_at = now
        kept = [path for path in current.paths if view.in_limits(path)]
        found = choose_paths(view, kept)
        if kept and (found.unmet or full or _overlapping(view, found)):
            fresh = choose_paths(view)
            if not found.better_than(fresh):
                found = fresh
        if worth_changing(view, current, found, full=full) and _settled(routes, current, full, unrest, now):
            return found
    unchanged_s = now - routes.changed_at
    if improve and not lately and may_improve(view, current, unchanged_s):
        routes.tried_at = now
        found = choose_paths(view)
        if worth_improving(view, current, found, unchanged_s):
            return found
    return current


def _settled(routes: RouteSet, current: Choice, full: bool, unrest: Unrest, now: float) -> bool:
    """Whether a set may move. If nothing is missed but the deadline it must have stayed long enough."""
    intact = bool(current.paths) and set(current.paths) == set(routes.chosen)
    missed = {each.name for each in current.requirements if not each.met}
    if not intact or full or missed != {"deadline_ms"}:
        return True
    if not unrest.may_move(now):
        routes.look_at = min(routes.look_at, unrest.stay_until)
        return False
    unrest.moved(now)
    return True


def turn(source: str, key: tuple[int, str], occasion: int = 0) -> float:
    """A share between 0 and 1 that differs between sets, everywhere: who acts first, if many could."""
    return crc32(f"{source} {key[0]} {key[1]} {occasion}".encode()) / 2**32


def _should_leave(view: PathView, current: Choice, routes: RouteSet, now: float) -> bool:
    """Whether a link on the way has been full for long enough that this set should leave it."""
    if not crowded(view, current):
        routes.crowded_until = None
        return False
    if routes.crowded_until is None:
        patience_s = CROWDED_PATIENCE_S * turn(view.source, (view.topic_class, view.destination), round(now))
        routes.crowded_until = max(now, routes.left_full_at + HOLD_S) + patience_s
    routes.look_at = min(routes.look_at, max(routes.crowded_until, now + LOOK_EVERY_S / 10))
    return now >= routes.crowded_until


def _overlapping(view: PathView, choice: Choice) -> bool:
    """Whether paths that are only asked to be several have something in common; a resiliency tells itself."""
    return view.contract.resiliency is None and shared(choice.paths) > 0
