"""The most utility that can be delivered within all budgets: exact, publisher by publisher.

A publisher can be held to any rate, so the best selection is a linear program: the sum of utility ×
subscribers × rate over all publishers, each rate from 0 to what is offered, every metric of every broker that
is short within its budget. Its corners leave at most one publisher for each budget with a part of its rate;
all others may say everything or nothing. With a single budget that binds it is the fractional knapsack,
solved by one sort; with several it is left to HiGHS.

Beyond `MAX_PUBLISHERS` the program is solved for a sample of them, each in the place of many. Its dual prices
say what each budget is worth, and the publishers that deliver most for what they take at these prices come
first: near the best, but not proven to be (`Selection.optimal`).

What is left over is given away by importance, so no room stays idle while anybody can use it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mangrove.control.congestion.assessment import delivered_utility
from mangrove.control.congestion.importance import topic_importances
from mangrove.control.congestion.problem import CongestionProblem, Selection
from mangrove.control.congestion.selection.greedy import by_rank, greedy, importance_by_topic
from mangrove.control.congestion.selection.table import SLACK, Numbers, Places, Table, sums

MAX_PUBLISHERS = 50_000
"""So many are solved for exactly when several budgets bind; it takes less than a second."""
SAMPLE = 20_000
"""If there are more, prices are found on so many of them."""
MAX_SIMPLEX = 10_000
"""With more publishers, but as few budgets, an interior-point method is quicker than the simplex."""
MAX_ITERATIONS = 100_000
"""Steps of the solver: a bound that does not depend on the machine, as a time would."""

_NOTHING = 1e-12


class _Program(NamedTuple):
    """The linear program in parts of what each publisher offers, and parts of each room."""

    values: Numbers
    rows: Places
    columns: Places
    parts: Numbers
    """What all of a publisher would take of a room: the matrix's entries at `rows` and `columns`."""
    budgets: int


class _Solution(NamedTuple):
    parts: Numbers
    optimal: bool


def knapsack(problem: CongestionProblem) -> Selection:
    """What everybody may say so that most utility is delivered."""
    table = Table(problem)
    importance = topic_importances(table)
    rooms, short = table.rooms()
    solution = _solved(_program(table, rooms))
    parts = np.where(table.protected[table.topic_of], 1.0, solution.parts)
    rates = _completed(table, rooms, parts, by_rank(problem, table, importance))
    selection = Selection(
        allowed=table.allowed(rates),
        importance=importance_by_topic(problem, importance),
        short=short,
        optimal=solution.optimal,
    )
    if selection.optimal:
        return selection
    other = greedy(problem)
    gain = delivered_utility(problem, other.allowed) - delivered_utility(problem, selection.allowed)
    return other if gain > 0 else selection


def _program(table: Table, rooms: Numbers) -> _Program:
    """Rows for the budgets that bind; a publisher that needs what is used up already is worth nothing."""
    values = table.utility * table.subscribers[table.topic_of] * table.msg_s
    values[table.protected[table.topic_of]] = 0.0
    publisher, slot, each = table.publisher_loads()
    needs = each * table.msg_s[publisher]
    values[publisher[(needs > 0) & (rooms[slot] <= 0)]] = 0.0
    taken = (values[publisher] > 0) & (needs > 0)
    publisher, slot, needs = publisher[taken], slot[taken], needs[taken]
    parts = needs / rooms[slot]
    binds = sums(slot, parts, len(rooms)) > 1.0
    row = np.cumsum(binds) - 1
    kept = binds[slot]
    return _Program(values, row[slot[kept]], publisher[kept], parts[kept], int(binds.sum()))


def _solved(program: _Program) -> _Solution:
    """What part of its offer each publisher may say; 0 for those that deliver nothing."""
    useful = np.where(program.values > 0, 1.0, 0.0)
    if not program.budgets:
        return _Solution(useful, True)
    if program.budgets == 1:
        return _Solution(_by_price(program, np.ones(1)), True)
    count = int(np.count_nonzero(useful))
    if count <= MAX_PUBLISHERS:
        result = _solver(program)
        if result.status == 0 and result.x is not None:
            return _Solution(np.clip(result.x, 0.0, 1.0) * useful, True)
        return _Solution(_by_price(program, np.ones(program.budgets)), False)
    result = _solver(_sample(program, -(-count // SAMPLE)))
    prices = np.ones(program.budgets) if result.status else -result.ineqlin.marginals
    return _Solution(_by_price(program, np.maximum(prices, _NOTHING)), False)


def _sample(program: _Program, step: int) -> _Program:
    """Every so manieth publisher, each of whom takes as much as all that it stands for."""
    chosen = program.columns % step == 0
    values = np.where(np.arange(len(program.values)) % step == 0, program.values * step, 0.0)
    return program._replace(
        values=values,
        rows=program.rows[chosen],
        columns=program.columns[chosen],
        parts=program.parts[chosen] * step,
    )


def _solver(program: _Program) -> Any:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    columns, places = np.unique(program.columns, return_inverse=True)
    matrix: Any = csr_array((program.parts, (program.rows, places)), shape=(program.budgets, len(columns)))
    values = program.values[columns]
    scale = float(values.max())
    result = linprog(
        -values / scale,
        A_ub=matrix,
        b_ub=np.ones(program.budgets),
        bounds=(0.0, 1.0),
        method="highs-ds" if len(columns) <= MAX_SIMPLEX else "highs-ipm",
        options={"maxiter": MAX_ITERATIONS},
    )
    if result.x is not None:
        everybody = np.ones(len(program.values))
        everybody[columns] = result.x
        result.x = everybody
    return result


def _by_price(program: _Program, prices: Numbers) -> Numbers:
    """Publishers by what they deliver for what they take at these prices, each as far as there is room.

    For a single budget that is the fractional knapsack, and exact.
    """
    costs = sums(program.columns, program.parts * prices[program.rows], len(program.values))
    result = np.where(program.values > 0, 1.0, 0.0)
    payers = np.nonzero(costs > 0)[0]
    order = payers[np.argsort(-program.values[payers] / costs[payers], kind="stable")]
    by_column = np.argsort(program.columns, kind="stable")
    ends = np.searchsorted(program.columns[by_column], np.arange(len(costs) + 1)).tolist()
    rows: list[int] = program.rows[by_column].tolist()
    needs: list[float] = program.parts[by_column].tolist()
    rooms = [1.0] * program.budgets
    for column in order.tolist():
        loads = range(ends[column], ends[column + 1])
        part = 1.0
        for load in loads:
            if needs[load] * part > rooms[rows[load]]:
                part = rooms[rows[load]] / needs[load]
        if part > 0:
            for load in loads:
                rooms[rows[load]] = max(0.0, rooms[rows[load]] - needs[load] * part)
        result[column] = part
    return result


def _completed(table: Table, rooms: Numbers, parts: Numbers, order: list[int]) -> Numbers:
    """Rates: what rounding has exceeded is put right, and what is left is given away by importance."""
    publisher, slot, each = table.publisher_loads()
    limited = ~table.protected[table.topic_of[publisher]]
    publisher, slot, each = publisher[limited], slot[limited], each[limited]
    needs = each * table.msg_s[publisher]
    used = sums(slot, needs * parts[publisher], len(rooms))
    factors = np.minimum(1.0, np.divide(rooms, used, out=np.ones(len(rooms)), where=used > 0))
    factor = np.ones(len(parts))
    np.minimum.at(factor, publisher[needs > 0], factors[slot[needs > 0]])
    rates = table.msg_s * parts * factor
    left = rooms - sums(slot, each * rates[publisher], len(rooms))
    left[left <= SLACK * np.abs(table.budgets)] = 0.0
    shut = np.zeros(len(parts), bool)
    shut[publisher[(each > 0) & (left[slot] <= 0)]] = True
    wanting = np.nonzero(~shut & (rates < table.msg_s))[0]
    if len(wanting):
        _give_away(table, left.tolist(), rates, wanting, order)
    return rates


def _give_away(table: Table, left: list[float], rates: Numbers, wanting: Places, order: list[int]) -> None:
    """What is left goes to those who still can use it: topics by importance, then publishers by utility."""
    rank = np.empty(len(table.protected))
    rank[order] = np.arange(len(order))
    by_message, by_byte, slots = table.load_by_message, table.load_by_byte, table.load_slot
    ends = np.searchsorted(table.load_topic, np.arange(len(rank) + 1)).tolist()
    for one in wanting[np.lexsort((-table.utility[wanting], rank[table.topic_of[wanting]]))].tolist():
        topic = int(table.topic_of[one])
        more = float(table.msg_s[one] - rates[one])
        costs = [
            (int(slots[load]), float(by_byte[load] * table.size_bytes[one] + by_message[load]))
            for load in range(ends[topic], ends[topic + 1])
        ]
        for slot, each in costs:
            if each * more > left[slot]:
                more = left[slot] / each
        for slot, each in costs:
            left[slot] = max(0.0, left[slot] - each * more)
        rates[one] = min(rates[one] + more, table.msg_s[one])
