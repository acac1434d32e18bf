"""Max-min fairness: the level up to which everybody may have what it wants."""

from __future__ import annotations

from collections.abc import Iterable


def fair_level(amount: float, wants: Iterable[float]) -> float:
    """The level at which the wants, each cut to it, use the amount up.

    Who wants less leaves the rest to the others. If all wants together leave something over, that is added to
    the largest: the level is what one who would take everything could have.
    """
    left = max(amount, 0.0)
    rising = sorted(max(want, 0.0) for want in wants)
    if not rising:
        return left
    for place, want in enumerate(rising):
        share = left / (len(rising) - place)
        if want > share:
            return share
        left -= want
    return rising[-1] + left
