"""How many domains must agree to a change: so many that no two sets of them can miss each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def is_quorum(domains: Collection[str], members: Sequence[str]) -> bool:
    """More than half of all domains; or just half, with the first of them.

    Any two such sets have a domain in common, so that of two changes at most one is agreed to. With the first
    domain, an even number of them stays able to change when it falls into halves.
    """
    agreeing = set(members) & set(domains)
    return 2 * len(agreeing) > len(members) or (2 * len(agreeing) == len(members) and members[0] in agreeing)
