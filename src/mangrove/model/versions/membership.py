"""Who decides on a version that changes who decides.

Each version is decided on by the members of the one before it, and by nobody else; promises are about one
version and forgotten with it. So at most one text can be decided on for each version, whoever its members
are, and by induction the members of every version are known beyond doubt: no two configurations ever decide
on the same thing, and none needs to overlap with another for that.

What must overlap is knowledge: whoever remains has to hear of what was decided. Those that stay are a quorum
of the members before, so that one of them has accepted it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mangrove.model.versions.document import FederationDocument
from mangrove.model.versions.network import members, numbers_problem


def is_quorum(domains: Collection[str], of: Sequence[str]) -> bool:
    """More than half of all domains; or just half, with the first of them.

    Any two such sets have a domain in common, so that of two changes at most one is agreed to. With the first
    domain, an even number of them stays able to change when it falls into halves.
    """
    agreeing = set(of) & set(domains)
    return 2 * len(agreeing) > len(of) or (2 * len(agreeing) == len(of) and of[0] in agreeing)


def membership_problem(document: FederationDocument, before: FederationDocument) -> str:
    """Why the domains of a version cannot follow those of the one before; empty if they can."""
    if document.network is None:
        if document.domains != before.domains or before.network is not None:
            return "it has other domains or links"
        return ""
    problem = numbers_problem(document.domains, before.domains, document.network.names)
    if problem:
        return problem
    now = members(before.domains)
    stay = set(now) & set(members(document.domains))
    if not is_quorum(stay, now):
        gone = ", ".join(sorted(set(now) - stay))
        return (
            f"too many domains leave at once ({gone}): those that stay must be more than half; remove them "
            "one after the other"
        )
    return ""
