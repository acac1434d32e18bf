"""Upper bounds from the score of every set of items: exact per broker, coupled by prices on the items.

For n free items and a class of equal brokers, `F[S]` is the score of carrying the set S (−∞ where S breaks a
constraint). With any prices π the Lagrangian

    L(π) = Σ_b max_S [F_b(S) + π(S)] − π(all)

is an upper bound of every partition, because a partition pays each price exactly once: the sum of its scores
is Σ_b [F_b(S_b) + π(S_b)] − π(all), and each term is at most the maximum. Subgradient steps lower L(π): an
item that too many of the maximising sets contain gets dearer to carry, one that none contains gets cheaper.

For a partial allocation the maximum runs over the supersets of what each broker has that add only undecided
items. With the items in a fixed order, those maxima are tables of halving size, made once, and the bound of a
node is one look-up per broker.
"""

from __future__ import annotations

import numpy as np

from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray

# Sets times classes: keeps the tables under about 100 MB.
MAX_ENTRIES = 1 << 22


def fits(free_items: int, classes: int) -> bool:
    """Whether the tables of a problem of this size can be made."""
    return free_items <= 22 and (1 << free_items) * classes <= MAX_ENTRIES


class SubsetBound:
    """Bounds for the depth-first search; `order` is the order in which it decides the items."""

    def __init__(
        self,
        scorer: Scorer,
        open_: BoolArray,
        order: IntArray,
        fixed: IntArray,
        *,
        minimise_violation: bool = False,
        iterations: int = 150,
    ) -> None:
        classes = scorer.problem.broker_classes()
        self.classes = [int(c) for c in classes]
        self._items = len(order)
        representatives = [int(np.argmax(classes == c)) for c in range(int(classes.max()) + 1)]
        values = [
            _set_values(scorer, open_, order, fixed, broker, minimise_violation) for broker in representatives
        ]
        prices, self.root = _prices(values, np.bincount(classes), iterations)
        self.rounding = 1e-14 * (float(np.abs(prices).sum()) + 1e-300)
        self._dues = float(prices.sum())
        paid = _set_prices(prices)
        self._tables = [_halved(value + paid) for value in values]
        self._sets = [0] * scorer.problem.broker_count

    def children(self, depth: int) -> list[float]:
        """Bound of placing the item at this depth on each broker."""
        bit = 1 << depth
        after = depth + 1
        now: list[float] = []
        then: list[float] = []
        for broker, held in enumerate(self._sets):
            table = self._tables[self.classes[broker]][after]
            now.append(table[held])
            then.append(table[held | bit])
        lost = [broker for broker, value in enumerate(now) if value == -np.inf]
        if len(lost) > 1:
            return [-np.inf] * len(now)
        total = sum(value for value in now if value != -np.inf) - self._dues
        if lost:
            only = lost[0]
            return [total + then[b] if b == only else -np.inf for b in range(len(now))]
        return [total - now[b] + then[b] for b in range(len(now))]

    def push(self, depth: int, broker: int) -> None:
        self._sets[broker] |= 1 << depth

    def pop(self, depth: int, broker: int) -> None:
        self._sets[broker] &= ~(1 << depth)


def _set_values(
    scorer: Scorer,
    open_: BoolArray,
    order: IntArray,
    fixed: IntArray,
    broker: int,
    minimise_violation: bool,
) -> FloatArray:
    """Score of every set of free items on the broker, on top of the items fixed there.

    Sets are numbered by their bits; all sums are built by doubling, each item once added to all sets before.
    """
    covariance = scorer.problem.covariance
    features = scorer.features[:, broker, :]
    here = np.flatnonzero(fixed == broker)
    sums = features[:, here].sum(axis=1, keepdims=True)
    variance = np.array([covariance[np.ix_(here, here)].sum()])
    banned = np.zeros(1, dtype=bool)
    for position, item in enumerate(order):
        cross = np.array([covariance[item, here].sum()])
        for earlier in order[:position]:
            cross = np.concatenate([cross, cross + covariance[item, earlier]])
        variance = np.concatenate([variance, variance + covariance[item, item] + 2.0 * cross])
        sums = np.concatenate([sums, sums + features[:, item : item + 1]], axis=1)
        banned = np.concatenate([banned, banned | (not open_[item, broker])])
    if minimise_violation:
        value = -scorer.violation(broker, sums, variance)
    else:
        value = scorer.score(broker, sums, variance)
        if scorer.constrained:
            value = np.where(scorer.violation(broker, sums, variance) > 0, -np.inf, value)
    return np.asarray(np.where(banned, -np.inf, value), dtype=np.float64)


def _set_prices(prices: FloatArray) -> FloatArray:
    total = np.zeros(1)
    for price in prices:
        total = np.concatenate([total, total + price])
    return total


def _prices(values: list[FloatArray], multiplicity: IntArray, iterations: int) -> tuple[FloatArray, float]:
    """Subgradient descent on the Lagrangian with Polyak-like steps; the best prices met, and their bound."""
    items = int(values[0].size).bit_length() - 1
    prices = np.zeros(items)
    best_prices, best = prices, np.inf
    step = 1.0
    stalled = 0
    bits = 1 << np.arange(items)
    for _ in range(iterations):
        paid = _set_prices(prices)
        bound = -float(prices.sum())
        carried = np.zeros(items)
        for value, count in zip(values, multiplicity, strict=True):
            chosen = int(np.argmax(value + paid))
            bound += count * float(value[chosen] + paid[chosen])
            carried += count * ((chosen & bits) > 0)
        if bound == -np.inf:
            return prices, bound
        if bound < best:
            stalled = 0
            best, best_prices = bound, prices
        else:
            stalled += 1
            if stalled >= 5:
                step, stalled, prices = step / 2, 0, best_prices
        excess = carried - 1.0
        if not excess.any() or step < 1e-7:
            break
        # Length of a step: a share of the bound's size over the size of the disagreement.
        length = step * max(abs(best), 1e-12) / float(excess @ excess)
        prices = prices - length * excess
    return best_prices, best


def _halved(values: FloatArray) -> list[memoryview]:
    """`[d][J]` → maximum over the sets that agree with J on the first d items, in views that read fast."""
    tables = [values]
    while tables[-1].size > 1:
        half = tables[-1].size // 2
        tables.append(np.maximum(tables[-1][:half], tables[-1][half:]))
    return [np.ascontiguousarray(table).data for table in reversed(tables)]
