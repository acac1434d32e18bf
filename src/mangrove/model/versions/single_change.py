"""Whether one version changes one contract of another and nothing else, as a client may be allowed to."""

from __future__ import annotations

from mangrove.model.versions.document import FederationDocument
from mangrove.model.versions.succession import difference


def other_changes(before: FederationDocument, after: FederationDocument, match: str) -> str:
    """What else than the contract of this pattern is changed; empty if nothing is."""
    what = difference(before, after)
    touched = {each.match for each in (*what.added, *what.removed, *(new for _, new in what.changed))}
    if touched - {match}:
        return f"it changes the contracts of {', '.join(sorted(touched - {match}))}"
    if what.reordered:
        return "it has contracts tried in another order"
    if what.settings:
        return f"it changes {', '.join(what.settings)}"
    return ""
