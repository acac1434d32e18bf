"""What an arm of the experiment is judged by (ePEER §5.3.3, and what its definitions leave out)."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from mangrove.evaluation.fdcc.keywords import Quality
from mangrove.evaluation.fdcc.traffic import Flow
from mangrove.evaluation.fdcc.workload import Floats, Workload

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Measures:
    """Means over a span of time."""

    qoe: float
    """Equations 5 to 7. Who is stopped is left out of (6), also if it may say a probe; a subscriber who hears
    nobody else is left out of (5)."""
    qoe_probes: float
    """The same, with publishers of whom only probes are heard."""
    qoe_zero: float
    """The same, with stopped publishers counted as 0."""
    message_utility: float
    """Mean utility of a delivery."""
    utility_s: float
    """Sum of the utilities of all deliveries of a second."""
    good_in_time: float
    """Of the deliveries that good publishers would make: those that were made, within the topic's delay."""
    deliveries_s: float
    stopped: float
    """Publishers that may say nothing but probes: their share of all."""
    unheard: float
    """Subscribers that hear nobody but probes: their share of all."""
    ui: float
    """What brokers are asked to carry by what they can carry undamaged, in the mean over brokers: input and
    output of the head and the edges, matching of the edges."""
    uo: float
    um: float
    ui_edges: float
    uo_edges: float
    ui_head: float
    uo_head: float
    ui_measured: float
    """What brokers do carry by what they can carry at the time, as their agents measure it; at most 1."""
    uo_measured: float
    um_measured: float
    largest: float
    """The highest measured utilisation of any broker on any metric, at the end."""


def measured(workload: Workload, flow: Flow, specified: Floats, stopped: Mask, utility: Floats) -> Measures:
    """Of one second. `specified`: capacities before any damage; `stopped` and `utility` (equation 2) go by
    publisher."""
    topic_of, listeners = workload.topic_of, workload.subscribers.astype(np.float64)
    audience = listeners[topic_of]
    deliveries = flow.delivered * audience
    good = np.array([each is Quality.GOOD for each in workload.quality])
    wanted = float((workload.rate_msg_s * audience)[good].sum())
    in_time = flow.wait_s[topic_of] <= workload.deadline_s[topic_of]
    heard = np.minimum(1.0, flow.delivered)
    speaking = np.where(stopped, 0.0, heard)
    used, asked = flow.carried / flow.capacity, flow.offered / specified
    total = float(deliveries.sum())
    return Measures(
        qoe=experience(topic_of, listeners, utility, speaking),
        qoe_probes=experience(topic_of, listeners, utility, heard),
        qoe_zero=experience(topic_of, listeners, utility * speaking, np.ones_like(speaking)),
        message_utility=float(deliveries @ utility) / total if total else 0.0,
        utility_s=float(deliveries @ utility),
        good_in_time=float(deliveries[good & in_time].sum()) / wanted if wanted else 1.0,
        deliveries_s=total,
        stopped=float(stopped.mean()),
        unheard=float(listeners[_by_topic(topic_of, speaking, len(listeners)) == 0].sum() / listeners.sum()),
        ui=float(asked[:, 0].mean()),
        uo=float(asked[:, 1].mean()),
        um=float(asked[1:, 2].mean()),
        ui_edges=float(asked[1:, 0].mean()),
        uo_edges=float(asked[1:, 1].mean()),
        ui_head=float(asked[0, 0]),
        uo_head=float(asked[0, 1]),
        ui_measured=float(used[:, 0].mean()),
        uo_measured=float(used[:, 1].mean()),
        um_measured=float(used[1:, 2].mean()),
        largest=float(used.max()),
    )


def experience(topic_of: NDArray[np.int64], listeners: Floats, utility: Floats, heard: Floats) -> float:
    """Equations 5 and 6, equal weights: the mean utility of those heard, over subscribers that hear anybody.

    A topic's subscribers all hear the same publishers, so that the mean over subscribers and the mean over
    publishers may change places: `utility` is that of equation 2. `heard` is the part of all seconds in which
    somebody says anything.
    """
    count = _by_topic(topic_of, heard, len(listeners))
    total = _by_topic(topic_of, utility * heard, len(listeners))
    hearing = listeners * np.minimum(1.0, count)
    if not hearing.any():
        return 0.0
    return float((hearing * total / np.maximum(count, 1e-300)).sum() / hearing.sum())


def mean_over(spans: list[tuple[float, Measures]]) -> Measures:
    """Means over spans of so many seconds each; the highest utilisation is that of the last."""
    weights = np.array([seconds for seconds, _ in spans])
    values = {
        each.name: float(np.average([getattr(one, each.name) for _, one in spans], weights=weights))
        for each in fields(Measures)
    }
    return Measures(**(values | {"largest": spans[-1][1].largest}))


def _by_topic(topic_of: NDArray[np.int64], values: Floats, topics: int) -> Floats:
    return np.asarray(np.bincount(topic_of, weights=values, minlength=topics), dtype=np.float64)
