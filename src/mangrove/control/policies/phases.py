"""The steps by which a policy is put in force, as one table."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where a leader is with the policy at hand."""

    IDLE = "idle"
    RECOVERING = "recovering"
    JOINING = "joining"
    STORING = "storing"
    PREPARING = "preparing"
    REMOVING = "removing"
    COMMITTING = "committing"
    DISCARDING = "discarding"


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    # A document was handed over; agents came that are no members yet; the store lost what is in force.
    Phase.IDLE: frozenset({Phase.STORING, Phase.JOINING, Phase.COMMITTING, Phase.RECOVERING}),
    # An earlier leader's proposal: all live members hold it, some are silent, or one has it not.
    Phase.RECOVERING: frozenset({Phase.COMMITTING, Phase.REMOVING, Phase.DISCARDING}),
    Phase.JOINING: frozenset({Phase.IDLE}),
    # Body and proposal are in the store, or are not.
    Phase.STORING: frozenset({Phase.PREPARING, Phase.DISCARDING}),
    # All members hold it, or some did not say so in time.
    Phase.PREPARING: frozenset({Phase.COMMITTING, Phase.REMOVING}),
    # Those that did not are no members any more.
    Phase.REMOVING: frozenset({Phase.COMMITTING}),
    # The store says that it is in force: from here on it is.
    Phase.COMMITTING: frozenset({Phase.IDLE}),
    Phase.DISCARDING: frozenset({Phase.IDLE}),
}
