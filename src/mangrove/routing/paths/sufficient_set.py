"""The fewest parallel paths that are up with a wanted probability (Harmony §3.2, from the other side).

Harmony looks for the most resilient set of a given size. A contract names the resiliency instead: here the
smallest set is found that reaches it, and of the smallest the most resilient, then the fastest. When no set
does, the best that can be had. Exact over the candidates: what a path adds only shrinks as the set grows, so
the present probability plus the largest gains still open bounds every branch, and a branch is cut when even
that does not reach what is wanted or what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mangrove.errors import InputError
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.paths.resilience import MAX_PATHS

EQUAL = 1e-12
"""Probabilities that differ by less are the same: the sums of inclusion-exclusion round."""


class SufficientSet(msgspec.Struct, frozen=True):
    """A set of paths, in the order of the candidates, and whether it reaches what was wanted."""

    paths: tuple[NodePath, ...]
    resiliency: float
    suffices: bool
    sets_examined: int


def sufficient_set(
    graph: Graph,
    candidates: Sequence[NodePath],
    wanted: float,
    *,
    least: int = 1,
    most: int = MAX_PATHS,
    together: Callable[[int, int], bool] | None = None,
    held: Sequence[int] = (),
    costs: Sequence[float] | None = None,
) -> SufficientSet:
    """The fewest candidates, `least` to `most` of them, that are up with probability `wanted`.

    `together` tells whether two candidates may be in one set. Fewer than `least` paths are returned when no
    so many may be together; such a set does not suffice. Candidates that are `held` are in every set.
    Equal sets are told apart by the sum of `costs`, which are the delays if none are given.
    """
    if not 1 <= least <= most <= MAX_PATHS:
        raise InputError(f"a set has 1 to {MAX_PATHS} paths, not {least} to {most}")
    most = min(most, len(candidates))
    search = _Search(graph, candidates, together, tuple(held), costs)
    for count in range(max(least, len(held)), most + 1):
        search.look(count, wanted)
        if search.best:
            return search.found(suffices=True)
    best: SufficientSet | None = None
    for count in range(max(1, len(held)), most + 1):
        # As many as must be; beyond that, a path more must give something.
        more = best is not None and count > least
        search.look(count, best.resiliency + 2 * EQUAL if best is not None and more else 0.0)
        if search.best:
            best = search.found(suffices=False)
        elif not more:
            break
    return best or SufficientSet((), 0.0, False, search.examined)


class _Search:
    """Branch and cut over sets of one size; probabilities of what was seen are kept for the next size."""

    def __init__(
        self,
        graph: Graph,
        candidates: Sequence[NodePath],
        together: Callable[[int, int], bool] | None,
        held: tuple[int, ...],
        costs: Sequence[float] | None,
    ) -> None:
        self._candidates = candidates
        self._together = together
        self._held = held
        self._costs = [graph.length(path) for path in candidates] if costs is None else costs
        self._elements = [
            frozenset([*path, *(graph.size + link for link in graph.path_links(path))]) for path in candidates
        ]
        up = [*(1.0 - graph.node_failure).tolist(), *(1.0 - graph.edge_failure).tolist()]
        fallible = sorted(each for each in frozenset().union(*self._elements) if up[each] < 1)
        self._bit = {element: 1 << place for place, element in enumerate(fallible)}
        self._up = [up[element] for element in fallible]
        self._masks = [sum(self._bit.get(each, 0) for each in elements) for elements in self._elements]
        self._products: dict[int, float] = {0: 1.0}
        self.best: tuple[int, ...] = ()
        self.value = 0.0
        self.examined = 0
        self._cost = float("inf")
        self._count = 0

    def look(self, count: int, wanted: float) -> None:
        """Find the best set of this size that reaches a probability; `best` stays empty if there is none."""
        self._count = count
        self.best, self.value, self._cost = (), wanted, float("inf")
        terms: tuple[tuple[int, int], ...] = ()
        open_ = [index for index in range(len(self._candidates)) if index not in self._held]
        for index in self._held:
            terms = self._with(terms, index)
            open_ = [other for other in open_ if self._together is None or self._together(index, other)]
        cost = sum(self._costs[index] for index in self._held)
        self._descend(terms, self._sum(terms), self._held, cost, tuple(open_))

    def found(self, *, suffices: bool) -> SufficientSet:
        """The best set of the last look."""
        paths = tuple(self._candidates[index] for index in sorted(self.best))
        return SufficientSet(paths, min(max(self.value, 0.0), 1.0), suffices, self.examined)

    def _descend(
        self,
        terms: tuple[tuple[int, int], ...],
        probability: float,
        chosen: tuple[int, ...],
        cost: float,
        open_: tuple[int, ...],
    ) -> None:
        """`terms` are the signed unions of inclusion-exclusion for the chosen paths."""
        self.examined += 1
        missing = self._count - len(chosen)
        if missing == 0:
            equal = abs(probability - self.value) <= EQUAL
            if probability > self.value + EQUAL or (equal and cost < self._cost):
                self.best, self.value, self._cost = chosen, probability, cost
            return
        if len(open_) < missing:
            return
        grown = {index: self._with(terms, index) for index in open_}
        gain = {index: self._sum(grown[index]) - probability for index in open_}
        # Greatest gain first, so that a good set is found early; equal gains in order of cost.
        order = sorted(open_, key=lambda index: (-round(gain[index], 13), self._costs[index], index))
        for position, index in enumerate(order):
            rest = order[position + 1 :]
            if len(rest) + 1 < missing:
                return
            bound = probability + gain[index] + sum(gain[other] for other in rest[: missing - 1])
            if bound < self.value - EQUAL:
                return  # later branches have smaller gains still
            if (
                self.best
                and bound <= self.value + EQUAL
                and self._least_cost(cost, index, rest, missing) >= self._cost
            ):
                continue
            if self._together is not None:
                rest = [other for other in rest if self._together(index, other)]
            self._descend(
                grown[index],
                probability + gain[index],
                (*chosen, index),
                cost + self._costs[index],
                tuple(rest),
            )

    def _least_cost(self, cost: float, index: int, rest: list[int], missing: int) -> float:
        cheapest = sorted(self._costs[other] for other in rest)[: missing - 1]
        return cost + self._costs[index] + sum(cheapest)

    def _with(self, terms: tuple[tuple[int, int], ...], index: int) -> tuple[tuple[int, int], ...]:
        mask = self._masks[index]
        return (*terms, (mask, 1), *((union | mask, -sign) for union, sign in terms))

    def _sum(self, terms: tuple[tuple[int, int], ...]) -> float:
        products, total = self._products, 0.0
        for mask, sign in terms:
            product = products.get(mask)
            if product is None:
                product = products[mask] = self._product(mask)
            total += sign * product
        return total

    def _product(self, mask: int) -> float:
        product = 1.0
        while mask:
            lowest = mask & -mask
            product *= self._up[lowest.bit_length() - 1]
            mask ^= lowest
        return product
