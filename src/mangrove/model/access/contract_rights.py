"""Who may make, change and withdraw contracts by the SDK: operators, and whom the access rules name.

Nobody else, whatever the defaults for publishing and subscribing are.
"""

from __future__ import annotations

from mangrove.model.access.rules import OPERATOR_ROLE, AccessRules, Principal
from mangrove.model.subjects import covers


def may_change(access: AccessRules, principal: Principal, match: str) -> bool:
    """Whether a client may change the contract of a pattern: all of it must be among what is granted.

    A client without a name, where nobody proves who it is, is meant by what is granted to whole domains.
    """
    if principal.role == OPERATOR_ROLE and principal.client:
        return True
    roles = access.roles_of(principal) if principal.client else ()
    return any(
        any(covers(subject, match) for subject in grant.subjects)
        and (
            grant.who.is_meant(principal, roles)
            if principal.client
            else grant.who.whole_domains and grant.who.in_domain(principal.domain)
        )
        for grant in access.contracts
    )
