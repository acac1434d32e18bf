"""What each method's trigger would have started, second by second, on the loads that were recorded.

The trigger is the agents' own (`control/offloading/trigger`), at rest for a while after each start. What a
session would have moved, and that load would then have been less, is not replayed: wishes are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from mangrove.control.offloading.registry import METHODS
from mangrove.control.offloading.trigger import StartedBy, next_start
from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing

# A broker that would start again and again is asked once in this time, as long as a session takes.
SESSION_S = 10
STATES = frozenset(state.value for state in LoadState)


def broker_load(row: Mapping[str, Any]) -> BrokerLoad:
    """A recorded row as the agent saw it, without regard to sessions; capacities are 1, loads are shares."""
    shares = {metric: row[metric.value] for metric in Metric}
    known = {metric: float(share) for metric, share in shares.items() if share is not None and share == share}
    over = {part for part in str(row["overloaded"] or "").split(",") if part}
    # A state that nobody here knows is that of a broker of which nothing can be told.
    told = row["measured"] in STATES
    state = LoadState(row["measured"]) if told else LoadState.HIGH
    return BrokerLoad(
        broker=row["broker"],
        role=row["role"],
        state=state,
        measured=state,
        utilisation=known,
        capacity=dict.fromkeys(known, 1.0),
        headroom=row["headroom"],
        overloaded=tuple(metric for metric in Metric if metric.value in over and metric in known),
        reachable=told and bool(row["reachable"]),
    )


def replay(rows: Iterable[Mapping[str, Any]], balancing: Balancing) -> list[dict[str, Any]]:
    """Rows of one domain in order of time → starts: second, trigger, broker, acceptors."""
    starts: list[dict[str, Any]] = []
    resting: dict[tuple[StartedBy, str], float] = {}
    for second, group in groupby(rows, key=lambda row: row["second"]):
        loads = [broker_load(row) for row in group]
        for started_by in StartedBy:
            still = {b for (kind, b), until in resting.items() if kind is started_by and until > second}
            start = next_start(started_by, loads, balancing, resting=still)
            if start is None:
                continue
            resting[(started_by, start.source)] = second + max(balancing.cooldown_s, SESSION_S)
            starts.append(
                {
                    "second": int(second),
                    "started_by": started_by.value,
                    "broker": start.source,
                    "acceptors": len(start.acceptors),
                }
            )
    return starts


def by_method(starts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How often each method would have moved, and how often nobody could have taken anything."""
    found = []
    for method in METHODS.values():
        own = [start for start in starts if start["started_by"] == method.started_by.value]
        found.append(
            {
                "method": method.name,
                "started_by": method.started_by.value,
                "would_move": sum(start["acceptors"] > 0 for start in own),
                "nobody_takes": sum(start["acceptors"] == 0 for start in own),
                "brokers": len({start["broker"] for start in own}),
            }
        )
    return found
