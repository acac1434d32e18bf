"""One step of raising limits: the most important first, as far as the room for this step goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mangrove.control.congestion.planning import Key, Plan, Planned
from mangrove.model.agents.load import Amounts

LEAST = 1e-6
"""So small a part of a rate is no step."""


def raised(
    plan: Plan, limits: Mapping[Key, float], higher: Sequence[Key], steps: int
) -> dict[Key, float | None]:
    """What those whose limit the plan has `higher` may say from now on; None: all that they want.

    One of so many `steps` uses that part of the room that is left below the budgets, the last one all of it.
    What a plan allows fits, so nobody is raised beyond that.
    """
    room = {
        broker: [amount / steps for amount in budget.minus(used_under(plan, limits, broker))]
        for broker, budget in plan.budgets.items()
    }
    found: dict[Key, float | None] = {}
    for key in sorted(higher, key=lambda each: _order(plan.publishers[each], each)):
        planned = plan.publishers[key]
        now = min(limits[key], planned.demand_msg_s)
        more = planned.allowed_msg_s - now
        fits = more if steps == 1 else min(more, _most(planned, room))
        if fits < more * LEAST or (fits <= 0.0 < more):
            continue
        _take(planned, room, fits)
        if fits < more or planned.limited:
            found[key] = now + fits
        else:
            found[key] = None
    return found


def _order(planned: Planned, key: Key) -> tuple[float, float, Key]:
    return -planned.importance, -planned.publisher.utility, key


def used_under(plan: Plan, limits: Mapping[Key, float], broker: str) -> Amounts:
    """What is carried at most under these limits; of what is protected, all that is offered."""
    messages_s = input_s = output_s = 0.0
    for key, planned in plan.publishers.items():
        copies = planned.offer.copies.get(broker)
        limit = limits.get(key)
        if copies is None or limit is None:
            continue
        withheld = max(0.0, planned.demand_msg_s - limit)
        messages_s += withheld
        input_s += withheld * planned.publisher.size_bytes
        output_s += withheld * planned.publisher.size_bytes * copies
    return plan.wanted[broker].minus(Amounts(input_s, output_s, messages_s))


def _most(planned: Planned, room: Mapping[str, list[float]]) -> float:
    size = planned.publisher.size_bytes
    most = math.inf
    for broker, copies in planned.offer.copies.items():
        for amount, left in zip((size, size * copies, 1.0), room.get(broker, ()), strict=False):
            if amount > 0.0:
                most = min(most, max(0.0, left) / amount)
    return most


def _take(planned: Planned, room: Mapping[str, list[float]], messages_s: float) -> None:
    size = planned.publisher.size_bytes
    for broker, copies in planned.offer.copies.items():
        left = room.get(broker)
        if left is not None:
            for place, amount in enumerate((size, size * copies, 1.0)):
                left[place] -= amount * messages_s
