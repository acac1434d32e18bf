"""Which topic leaves a broker first: ePEER's tables 4-5 and 4-7, and the order within a class."""

from __future__ import annotations

from mangrove.control.offloading.problem import Audience, Bundle, Problem, Scope
from mangrove.model.agents.load import Metric

_NONE, _REMOTE, _BOTH, _LOCAL = Audience.NONE, Audience.REMOTE, Audience.BOTH, Audience.LOCAL

Classes = tuple[tuple[Audience, ...], ...]
"""Classes of topics, those that leave first in front; audiences of one class are equals."""

PUBLISHERS_BY_INPUT: Classes = ((_NONE,), (_REMOTE,), (_BOTH,), (_LOCAL,))
PUBLISHERS_BY_OUTPUT: Classes = ((_REMOTE,), (_BOTH,), (_LOCAL,), (_NONE,))
SUBSCRIBERS_WITHIN: Classes = ((_LOCAL, _REMOTE, _BOTH), (_NONE,))
SUBSCRIBERS_ELSEWHERE: Classes = ((_REMOTE,), (_BOTH,), (_LOCAL,), (_NONE,))

HEAD: dict[Metric, Classes] = {
    Metric.INPUT: PUBLISHERS_BY_INPUT,
    Metric.OUTPUT: PUBLISHERS_BY_OUTPUT,
    Metric.MATCHING: PUBLISHERS_BY_INPUT,
}
"""Table 4-5. It has no row for matching; messages are matched as they come in, so input's row holds."""

EDGE: dict[Scope, Classes] = {
    Scope.DOMAIN: SUBSCRIBERS_WITHIN,
    Scope.NEIGHBOURS: SUBSCRIBERS_ELSEWHERE,
}
"""Table 4-7: the same for all three metrics."""

_METRICS = tuple(Metric)


def classes(publishers: bool, metric: Metric, scope: Scope) -> Classes:
    """The table's row for what a broker sheds, the metric that is overloaded, and where load may go."""
    return HEAD[metric] if publishers else EDGE[scope]


def worst_metric(problem: Problem) -> Metric:
    """The metric that is overloaded by the largest share of its capacity.

    When several are, this one names the row of table 4-5 and breaks ties within a class; that every
    overloaded metric gets its relief is the methods' work. Equal shares: input before output before
    matching.
    """
    return min(
        problem.need,
        key=lambda metric: (
            -problem.need[metric] / max(problem.capacity.of(metric), 1e-12),
            _METRICS.index(metric),
        ),
    )


def ranks(problem: Problem) -> dict[Audience, int]:
    """The class of each audience in this problem, 0 leaves first."""
    row = classes(problem.publishers, worst_metric(problem), problem.scope)
    return {audience: rank for rank, equals in enumerate(row) for audience in equals}


def prioritised(problem: Problem) -> list[Bundle]:
    """The bundles that relieve an overloaded metric, those that should leave first in front.

    By class; in a class the most tolerant first; then those that relieve the worst metric most, so that fewer
    move; then by name. What relieves none of the overloaded metrics would move for nothing and is left out.
    """
    if not problem.need:
        return []
    rank = ranks(problem)
    worst = worst_metric(problem)
    useful = [
        bundle for bundle in problem.bundles if any(bundle.load.of(metric) > 0 for metric in problem.need)
    ]
    useful.sort(
        key=lambda bundle: (
            rank[bundle.audience],
            -bundle.deadline_s,
            -bundle.load.of(worst),
            bundle.topic,
        )
    )
    return useful
