"""Where an agent stands in the election of its domain's leader."""

from __future__ import annotations

from enum import Enum


class Standing(Enum):
    """Follows, waits for its turn to take a lease that is free, asks for it, leads, or does not know."""

    FOLLOWING = "following"
    WAITING = "waiting"
    TAKING = "taking"
    LEADING = "leading"
    UNSURE = "unsure"


TRANSITIONS: dict[Standing, frozenset[Standing]] = {
    # The lease is free: nobody renewed it for its time, or its holder stepped down.
    Standing.FOLLOWING: frozenset({Standing.WAITING}),
    # Its turn has come, or somebody else was faster.
    Standing.WAITING: frozenset({Standing.TAKING, Standing.FOLLOWING}),
    # The store took the record, or had another, or did not answer.
    Standing.TAKING: frozenset({Standing.LEADING, Standing.FOLLOWING}),
    # A renewal was refused; or the lease ended; or it was handed over.
    Standing.LEADING: frozenset({Standing.UNSURE, Standing.FOLLOWING}),
    # The record is its own after all (an earlier renewal came about late), or somebody else's.
    Standing.UNSURE: frozenset({Standing.LEADING, Standing.FOLLOWING}),
}
