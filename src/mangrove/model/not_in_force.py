"""Keys of contracts that are accepted, so that files need not change later, but do nothing yet."""

from __future__ import annotations

from mangrove.model.topics import TopicRules

NOT_IN_FORCE = {
    "mirror": "messages are published to one broker only",
    "durable": "messages are not kept for subscribers that are away",
}
"""A key leaves this table in the change that makes it work."""


def contract_warnings(rules: TopicRules) -> tuple[str, ...]:
    """What the contracts ask for and do not get, a sentence for each."""
    return tuple(
        f"topics[{position}] ({contract.match}): `{key}` is accepted but not in force yet; {instead}"
        for position, contract in enumerate(rules.contracts)
        for key, instead in NOT_IN_FORCE.items()
        if getattr(contract, key)
    )
