"""From sums over windows to the figures that the planners need (thesis §4.5.2): means and covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.errors import InputError
from mangrove.pipelines.rates.blocks import COUNTS
from mangrove.pipelines.rates.peaks import Periods
from mangrove.pipelines.rates.sums import Sums
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray

# With fewer windows than this for each topic, the covariance's off-diagonal entries are largely noise.
WINDOWS_PER_TOPIC = 10
# Relative size of a negative eigenvalue that is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class RateStatistics:
    """Figures of each topic, in the order of topics. Rates are messages per second."""

    windows: int
    mean_rate: FloatArray
    covariance: FloatArray
    shrinkage: float
    burst_factor: FloatArray
    """largest rate of a window over the mean; 0 for a topic without messages"""
    replication: FloatArray
    filters: FloatArray
    subscribers: FloatArray
    message_bytes: FloatArray

    @property
    def variance(self) -> FloatArray:
        """The diagonal."""
        return np.diag(self.covariance).copy()


def statistics(
    sums: Sums, topic_of_stream: IntArray, periods: Periods, shrinkage: float | None
) -> RateStatistics:
    """Means, covariance and the rest, of two windows or more. Uses up the sums' matrix.

    `shrinkage` None: estimated for short histories, else none.
    """
    windows = periods.windows
    if large := int(too_large(sums.power, sums.total, windows).sum()):
        raise InputError(
            f"{large} topics vary by so many messages that their squares do not fit in 63 bits",
            hint="choose a shorter --window or a shorter period",
        )
    # About a whole number near the mean: exact, and what is left to subtract is small.
    centre = np.rint(sums.total / windows).astype(np.int64)
    rest = (sums.total - windows * centre).astype(np.float64)
    covariance = second_moment(sums.gram, sums.total, windows, centre)
    covariance -= np.outer(rest, rest / windows)
    covariance = (covariance + covariance.T) / (2 * (windows - 1))
    per_second = 1.0 / periods.window_s
    covariance *= per_second**2
    _settle(covariance)
    mean_rate = sums.total / windows * per_second
    delta = _shrinkage(covariance, windows) if shrinkage is None else shrinkage
    if delta:
        diagonal = np.diag(covariance).copy()
        covariance *= 1.0 - delta
        np.fill_diagonal(covariance, diagonal)
    topics = len(sums.total)
    rows = sums.streams[0]

    def summed(values: FloatArray | IntArray) -> FloatArray:
        """Over the brokers of a topic."""
        return np.asarray(np.bincount(topic_of_stream, weights=values, minlength=topics), dtype=np.float64)

    by_topic = {name: summed(sums.streams[row]) for row, name in enumerate(COUNTS, start=1)}

    def averaged(name: str) -> FloatArray:
        """Mean over a stream's rows, summed over the brokers of a topic."""
        of_stream = _ratio(sums.streams[1 + COUNTS.index(name)], rows)
        return summed(of_stream)

    subscribers = averaged("subscribers")
    replication = _ratio(by_topic["msgs_out"], by_topic["msgs_in"])
    return RateStatistics(
        windows=windows,
        mean_rate=mean_rate,
        covariance=covariance,
        shrinkage=delta,
        burst_factor=_ratio(sums.most.astype(np.float64) * per_second, mean_rate),
        replication=np.where(by_topic["msgs_in"] > 0, replication, subscribers),
        filters=averaged("filters"),
        subscribers=subscribers,
        message_bytes=_ratio(by_topic["bytes_in"], by_topic["msgs_in"]),
    )


def second_moment(gram: IntArray, total: IntArray, windows: int, centre: IntArray) -> FloatArray:
    """Σ(x − c)·(x − c)ᵀ over `windows` windows, those without messages included. Overwrites `gram`.

    Exact as long as it fits in 63 bits, however far the raw moment has gone around (decision 0310).
    """
    for start in range(0, len(gram), 256):
        rows = slice(start, start + 256)
        gram[rows] -= np.multiply.outer(centre[rows], total - windows * centre)
        gram[rows] -= np.multiply.outer(total[rows], centre)
    return gram.astype(np.float64)


def too_large(power: FloatArray, total: IntArray, windows: int) -> BoolArray:
    """Topics whose second moment about the mean may not fit in 63 bits."""
    spread = power - total.astype(np.float64) ** 2 / windows
    return np.asarray(spread >= float(1 << 62))


def _settle(covariance: FloatArray) -> None:
    """Rounding must give a constant topic neither a variance below zero nor a covariance."""
    diagonal = np.diag(covariance).copy()
    still = diagonal <= ROUNDING * max(float(diagonal.max(initial=0.0)), 1e-300)
    covariance[still, :] = 0.0
    covariance[:, still] = 0.0


def _shrinkage(covariance: FloatArray, windows: int) -> float:
    """Share by which the off-diagonal entries are reduced, for histories short for the number of topics.

    The share that minimises the expected squared error towards the diagonal (Ledoit and Wolf; target of
    unequal variances by Schäfer and Strimmer), with the sampling variance of an entry taken as that of
    normal data, (s_ii·s_jj + s_ij²)/(n − 1): the sums at hand determine nothing finer.
    """
    topics = len(covariance)
    if windows >= WINDOWS_PER_TOPIC * topics or topics < 2:
        return 0.0
    diagonal = np.diag(covariance)
    squares = float((covariance**2).sum() - (diagonal**2).sum())
    if squares <= 0:
        return 1.0
    products = float(diagonal.sum() ** 2 - (diagonal**2).sum())
    return float(np.clip((products + squares) / (windows - 1) / squares, 0.0, 1.0))


def semidefinite(covariance: FloatArray) -> FloatArray:
    """The matrix with rounding's negative eigenvalues lifted, if there are any."""
    live = np.diag(covariance) > 0
    if not live.any():
        return covariance
    inner = covariance[np.ix_(live, live)]
    try:
        # A fraction of the time of the eigenvalues, and enough when no item is a mixture of others.
        np.linalg.cholesky(inner)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(inner)[0])
    else:
        return covariance
    if smallest >= 0:
        return covariance
    lifted = covariance.copy()
    # A power of two: the last digits of an eigenvalue must not show in the plan.
    lifted[live, live] += 2.0 ** np.ceil(np.log2(-2.0 * smallest))
    return lifted


def _ratio(above: FloatArray | IntArray, below: FloatArray | IntArray) -> FloatArray:
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)
