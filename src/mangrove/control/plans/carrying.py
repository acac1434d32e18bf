"""What an answer of `plan allocate|mirror|cases` carries, so that it can be put in force as it is."""

from __future__ import annotations

from typing import Any

import msgspec

from mangrove.control.plans.figures import figures_of
from mangrove.model.plans.origin import origin_fields
from mangrove.planning.problem.problem import Problem


def carried(document: object, problem: Problem, *, made_at: float, source: str) -> dict[str, Any]:
    """Fields for an answer to a problem document; none if it does not say for which federation it is."""
    origin = origin_fields(document)
    if "federation" not in origin:
        return {}
    figures = figures_of(problem)
    told = {} if figures is None else {"figures": msgspec.to_builtins(figures)}
    return {**origin, "made_at": made_at, "source": source, **told}
