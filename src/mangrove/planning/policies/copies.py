"""Second copies as items: the load of a broker's primaries and mirrors together (thesis §4.6.1).

A mirror whose messages are always sent is an item of its own with the rate of the original. It varies with
every other item as the original does, so the variance of a broker's set of originals and copies is that of
their union; an item and its copy are never on one broker, so nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mangrove.planning.problem.problem import Problem

NOWHERE = -1
COPY_SUFFIX = " (mirror)"


def with_copies(
    problem: Problem,
    copied: Sequence[int],
    pinned: Mapping[int, int],
    forbidden: Sequence[tuple[int, int]] = (),
) -> Problem:
    """The problem with a copy of each of `copied` behind its items.

    The k-th copy is item `item_count + k`. `pinned` replaces the pins, and `forbidden` comes on top of what
    is forbidden: a broker that may not carry an item may not carry its copy either.
    """
    rows = np.concatenate([np.arange(problem.item_count), np.array(copied, dtype=np.int64)])
    bounds = problem.constraints
    position = {item: problem.item_count + place for place, item in enumerate(copied)}
    inherited = {(position[item], broker) for item, broker in bounds.forbidden if item in position}
    return replace(
        problem,
        items=problem.items + tuple(problem.items[item] + COPY_SUFFIX for item in copied),
        mean_rate_msg_s=problem.mean_rate_msg_s[rows],
        covariance=problem.covariance[np.ix_(rows, rows)],
        service_time_s=None if problem.service_time_s is None else problem.service_time_s[:, rows],
        replication=problem.replication[rows],
        volume=problem.volume[rows],
        # A message earns its reward once, however many copies there are.
        reward=np.concatenate([problem.reward, np.zeros(len(copied))]),
        penalty=problem.penalty[rows],
        mirrored=(),
        constraints=replace(
            bounds, pinned=dict(pinned), forbidden=bounds.forbidden | inherited | set(forbidden)
        ),
    )
