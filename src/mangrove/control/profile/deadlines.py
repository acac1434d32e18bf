"""The delay requirement that contracts give a topic, also if it is a pattern."""

from __future__ import annotations

import math

from mangrove.model.subjects import covers
from mangrove.model.topics import TopicRules, overlaps


def contract_deadline_s(rules: TopicRules, topic: str) -> float:
    """The strictest deadline of the contracts that some subject of `topic` may fall under; infinite if none.

    Contracts are asked in their order, up to the first that covers all of the topic.
    """
    strictest_ms = math.inf
    for contract in rules.contracts:
        if not overlaps(contract.match, topic):
            continue
        if contract.deadline_ms is not None:
            strictest_ms = min(strictest_ms, contract.deadline_ms)
        if covers(contract.match, topic):
            break
    return strictest_ms / 1000
