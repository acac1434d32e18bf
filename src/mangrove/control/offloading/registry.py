"""The offloading methods by name, and what starts each."""

from __future__ import annotations

import msgspec

from mangrove.control.offloading.drd import drd
from mangrove.control.offloading.drd_optimal import drd_optimal
from mangrove.control.offloading.peer import peer
from mangrove.control.offloading.peer_drd import peer_drd
from mangrove.control.offloading.problem import Method
from mangrove.control.offloading.trigger import StartedBy
from mangrove.errors import InputError


class OffloadingMethod(msgspec.Struct, frozen=True):
    """One method: what it is called, what starts it, and how it chooses."""

    name: str
    started_by: StartedBy
    choose: Method
    summary: str


METHODS: dict[str, OffloadingMethod] = {
    one.name: one
    for one in (
        OffloadingMethod("drd", StartedBy.OVERLOAD, drd, "the least urgent topics leave first (ePEER)"),
        OffloadingMethod(
            "drd-optimal",
            StartedBy.OVERLOAD,
            drd_optimal,
            "the least sum of 1/deadline over the subscribers that move",
        ),
        OffloadingMethod("peer", StartedBy.IMBALANCE, peer, "by load alone, when two edges differ (PEER)"),
        OffloadingMethod(
            "peer-drd", StartedBy.IMBALANCE, peer_drd, "the least urgent first, when two edges differ"
        ),
    )
}


def method_named(name: str) -> OffloadingMethod:
    """The method of that name."""
    found = METHODS.get(name)
    if found is None:
        raise InputError(f"there is no offloading method {name!r}", hint=f"one of {', '.join(METHODS)}")
    return found
