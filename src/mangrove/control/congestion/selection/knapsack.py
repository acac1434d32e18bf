"""The most utility that can be delivered within all budgets: exact, publisher by publisher.

A publisher can be held to any rate, so the best selection is a linear program: the sum of utility ×
subscribers × rate over all publishers, each rate from 0 to what is offered, every metric of every broker that
is short within its budget. Its corners leave at most one publisher for each budget with a part of its rate;
all others may say everything or nothing. With a single budget that binds it is the fractional knapsack,
solved by one sort; with several it is left to HiGHS.

What the program leaves over is given away by importance, so no room stays idle while anybody wants it, and
what rounding does to budgets is put right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mangrove.control.congestion.assessment import delivered_utility
from mangrove.control.congestion.importance import importances
from mangrove.control.congestion.problem import CongestionProblem, PublisherDemand, Selection, TopicDemand
from mangrove.control.congestion.selection.greedy import by_rank, greedy
from mangrove.control.congestion.selection.ledger import Ledger, Load

MAX_PUBLISHERS = 200_000
"""Beyond so many, several budgets at once are not solved exactly: the publishers that deliver most for what
they take of the scarcest come first."""
MAX_ITERATIONS = 200_000
"""Steps of the solver, after which the same is done: a bound that does not depend on the machine."""

_NOTHING = 1e-12


class _Item(NamedTuple):
    """A publisher that may be limited."""

    topic: TopicDemand
    publisher: PublisherDemand
    loads: list[Load]


@dataclass(frozen=True, slots=True)
class _Program:
    """The linear program in parts of what each publisher offers, and parts of each room."""

    values: NDArray[np.float64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    parts: NDArray[np.float64]
    """What all of a publisher takes of a room: entries of the matrix at `rows`, `columns`."""
    budgets: int


def knapsack(problem: CongestionProblem) -> Selection:
    """What everybody may say so that most utility is delivered."""
    ledger = Ledger(problem)
    items = _items(problem, ledger)
    program = _program(items, ledger)
    parts, optimal = _solved(program)
    order = sorted(range(len(items)), key=lambda index: (-parts[index], index))
    for index in order:
        topic, publisher, loads = items[index]
        _allow(ledger, topic.topic, publisher, loads, publisher.msg_s * float(parts[index]))
    importance = importances(problem)
    for topic in by_rank(problem, importance):
        loads = ledger.loads(topic)
        for publisher in sorted(topic.publishers, key=lambda one: (-one.utility, one.publisher)):
            _allow(ledger, topic.topic, publisher, loads, publisher.msg_s)
    selection = Selection(allowed=ledger.allowed, importance=importance, short=ledger.short, optimal=optimal)
    other = greedy(problem)
    if delivered_utility(problem, other.allowed) > delivered_utility(problem, selection.allowed):
        return other
    return selection


def _items(problem: CongestionProblem, ledger: Ledger) -> list[_Item]:
    """Everybody whose rate is to be found."""
    items = []
    for topic in problem.topics:
        if topic.protected or topic.subscribers <= 0:
            continue
        loads = ledger.loads(topic)
        if any(ledger.rooms[load.slot] <= 0 for load in loads):
            continue
        items += [
            _Item(topic, publisher, loads)
            for publisher in topic.publishers
            if publisher.msg_s > 0 and publisher.utility > 0
        ]
    return items


def _program(items: list[_Item], ledger: Ledger) -> _Program:
    rows: list[int] = []
    columns: list[int] = []
    parts: list[float] = []
    values = np.empty(len(items))
    rooms = ledger.rooms
    for column, (topic, publisher, loads) in enumerate(items):
        messages_s = publisher.msg_s
        bytes_s = messages_s * publisher.size_bytes
        values[column] = publisher.utility * topic.subscribers * messages_s
        for slot, by_byte, by_message in loads:
            rows.append(slot)
            columns.append(column)
            parts.append((by_byte * bytes_s + by_message * messages_s) / rooms[slot])
    row, column_of, part = np.array(rows, np.int64), np.array(columns, np.int64), np.array(parts, np.float64)
    totals = np.bincount(row, weights=part, minlength=len(rooms))
    binding = totals > 1.0
    numbers = np.cumsum(binding) - 1
    kept = binding[row] if len(row) else np.zeros(0, bool)
    return _Program(values, numbers[row[kept]], column_of[kept], part[kept], int(binding.sum()))


def _solved(program: _Program) -> tuple[NDArray[np.float64], bool]:
    """What part of its offer each publisher may say, and whether that is proven to be the best."""
    count = len(program.values)
    if not program.budgets or not count:
        return np.ones(count), True
    if program.budgets > 1 and count <= MAX_PUBLISHERS:
        solution = _by_solver(program)
        if solution is not None:
            return solution, True
    scarcest = np.zeros(count)
    np.maximum.at(scarcest, program.columns, program.parts)
    return _by_density(program, scarcest), program.budgets == 1


def _by_density(program: _Program, scarcest: NDArray[np.float64]) -> NDArray[np.float64]:
    """The fractional knapsack: most value for what it takes of the scarcest first. Exact for one budget."""
    density = program.values / np.maximum(scarcest, _NOTHING)
    order = np.argsort(-density, kind="stable")
    rooms = np.ones(program.budgets)
    wanted = np.zeros((program.budgets, len(program.values)))
    wanted[program.rows, program.columns] = program.parts
    parts = np.zeros(len(program.values))
    for column in order:
        need = wanted[:, column]
        part = 1.0
        for row in range(program.budgets):
            if need[row] * part > rooms[row]:
                part = rooms[row] / need[row]
        rooms = np.maximum(rooms - need * part, 0.0)
        parts[column] = part
    return parts


def _by_solver(program: _Program) -> NDArray[np.float64] | None:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    shape = (program.budgets, len(program.values))
    matrix: Any = csr_array((program.parts, (program.rows, program.columns)), shape=shape)
    scale = float(program.values.max())
    result = linprog(
        -program.values / scale,
        A_ub=matrix,
        b_ub=np.ones(program.budgets),
        bounds=(0.0, 1.0),
        method="highs-ds",
        options={"maxiter": MAX_ITERATIONS},
    )
    return None if result.status != 0 or result.x is None else np.clip(result.x, 0.0, 1.0)


def _allow(
    ledger: Ledger, topic: str, publisher: PublisherDemand, loads: list[Load], wanted_msg_s: float
) -> None:
    """Raise what a publisher may say to what is wanted, as far as there is room."""
    key = topic, publisher.publisher
    now = ledger.allowed.get(key, 0.0)
    more = ledger.most(loads, max(0.0, wanted_msg_s - now), publisher.size_bytes)
    ledger.take(loads, more, more * publisher.size_bytes)
    ledger.allowed[key] = min(now + more, publisher.msg_s)
