"""Rate regions (ePEER §5.2.1): the less useful a publisher, the fewer fair shares of its broker it may use.

The thesis gives limits in messages a second, as examples. Here they are parts of `MAX_SHARES` fair shares of
whatever the broker is short of: bytes are converted by the publisher's own mean size.

They are there because topics are picked as a whole, and useless publishers of an important topic with them.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from mangrove.control.congestion.fair_level import fair_level
from mangrove.control.congestion.problem import CongestionProblem, PublisherDemand
from mangrove.control.congestion.selection.table import Numbers, Table
from mangrove.model.congestion.parameters import Congestion

MAX_SHARES = 8.0
"""How many fair shares the most useful publisher may have. The thesis lets it say 2,000 messages a second
where an edge matches 25,000 for 25 topics: twice a topic's share, and eight times a publisher's where a topic
has four."""


def cut_to_regions(problem: CongestionProblem, parameters: Congestion) -> CongestionProblem:
    """The same problem where nobody, but for protected topics, asks for more than its region allows."""
    table = Table(problem)
    limits = region_limits(table, parameters)
    cut = limits < table.msg_s
    cut_topics = np.zeros(len(problem.topics), bool)
    cut_topics[table.topic_of[cut]] = True
    topics = list(problem.topics)
    for place in np.nonzero(cut_topics)[0].tolist():
        topic, first = topics[place], int(table.starts[place])
        publishers = tuple(
            PublisherDemand(one.publisher, one.utility, float(limits[first + number]), one.size_bytes)
            if cut[first + number]
            else one
            for number, one in enumerate(topic.publishers)
        )
        topics[place] = msgspec.structs.replace(topic, publishers=publishers)
    return msgspec.structs.replace(problem, topics=tuple(topics))


def region_limits(table: Table, parameters: Congestion) -> Numbers:
    """Messages a second for everybody by its region; infinite where nothing is short, or if protected.

    A fair share is by what is offered: who says little leaves the rest to the others. Nobody may have more
    than there is, however few they are. The end of a region belongs to the next.
    """
    publisher, slot, each = table.publisher_loads()
    publisher, slot, each = publisher[each > 0], slot[each > 0], each[each > 0]
    order = np.argsort(slot, kind="stable")
    ends = np.searchsorted(slot[order], np.arange(len(table.budgets) + 1))
    wants = each * table.msg_s[publisher]
    shares = np.zeros(len(table.budgets))
    for place, budget in enumerate(np.maximum(table.budgets, 0.0).tolist()):
        level = fair_level(budget, wants[order[ends[place] : ends[place + 1]]])
        shares[place] = min(MAX_SHARES * level, budget)
    limits = np.full(len(table.msg_s), math.inf)
    np.minimum.at(limits, publisher, shares[slot] / each)
    rungs = np.array(parameters.ladder)[np.searchsorted(parameters.regions, table.utility, side="right")]
    finite = np.isfinite(limits)
    limits[finite] *= rungs[finite]
    limits[table.protected[table.topic_of]] = math.inf
    return limits
