"""Plain data → `Problem`: the format of `mangrove plan`, checked as a whole.

All mistakes are reported together, each with its field. Unknown fields at the top level are ignored with a
warning (files carry notes and sources); inside `constraints` and `model` they are mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mangrove.errors import InvalidDocumentError, Mistake
from mangrove.planning.problem import covariance as covariances
from mangrove.planning.problem.arrays import FloatArray
from mangrove.planning.problem.deployment import Provenance, read_hosts, read_mirrored, read_provenance
from mangrove.planning.problem.problem import AllocationConstraints, Objective, Problem
from mangrove.planning.problem.reading import Reader, number, writable

FIELDS = frozenset(
    {"items", "mean_rate", "covariance", "brokers", "capacity", "model", "filters", "replication"}
    | {"size_bytes", "constraints", "objective", "reward", "penalty", "penalty_per_message"}
    | {"utilisation_threshold", "mirrored", "hosts", "topics", "federation", "domain", "data_until"}
    | {"topology"}
)
CONSTRAINTS = frozenset(
    {"max_risk", "pinned", "forbidden", "max_items", "max_volume", "max_delay_s", "max_replication"}
)
MODEL = ("t_rcv", "t_fltr", "t_tx")


@dataclass(frozen=True, slots=True)
class ReadProblem:
    """A valid problem, what the user should know about the document, and where its items come from."""

    problem: Problem
    warnings: tuple[str, ...]
    provenance: Provenance


def read_problem(document: object, source: str, *, always_repair: bool = False) -> ReadProblem:
    """Check the document and build the problem; raises with all mistakes at once."""
    if not isinstance(document, Mapping):
        raise InvalidDocumentError(source, [Mistake("", "not a JSON object", "an object with `items`, …")])
    reader = Reader(document, source)
    items = reader.names("items")
    brokers = reader.names("brokers")
    n, k = len(items), len(brokers)
    mean = reader.numbers("mean_rate", n, "items")
    if "mean_rate" not in document:
        reader.note("mean_rate", "missing", "one rate for each item")
    matrix = reader.square("covariance", n)
    if matrix is not None and (place := covariances.asymmetry(matrix)) is not None:
        i, j = place
        reader.note(
            f"covariance[{i}][{j}]",
            f"{matrix[i, j]:g} differs from covariance[{j}][{i}] = {matrix[j, i]:g}",
            "a symmetric matrix",
        )
    replication = reader.numbers("replication", n, "items")
    capacity, service = _capacity(reader, n, k, replication)
    sizes = reader.numbers("size_bytes", n, "items")
    reward = reader.numbers("reward", n, "items")
    penalty = reader.numbers("penalty", n, "items")
    threshold = _scalar(reader, "utilisation_threshold", 1.0, most=1.0)
    per_message = _scalar(reader, "penalty_per_message", 1.0)
    objective = _objective(reader)
    constraints = _Constraints(reader, items, brokers).read()
    mirrored = read_mirrored(reader, items)
    hosts = read_hosts(reader, brokers)
    provenance = read_provenance(reader, items)
    reader.mistakes.raise_if_any()
    assert mean is not None
    assert matrix is not None
    checked = covariances.checked(matrix, always_repair=always_repair)
    problem = Problem(
        items=items,
        brokers=brokers,
        mean_rate_msg_s=mean,
        covariance=checked.matrix,
        capacity_msg_s=capacity,
        service_time_s=service,
        replication=np.zeros(n) if replication is None else replication,
        volume=mean if sizes is None else mean * sizes,
        reward=mean if reward is None else reward,
        penalty=mean if penalty is None else penalty,
        constraints=constraints,
        penalty_per_message=per_message,
        utilisation_threshold=threshold,
        objective=objective,
        semidefinite=checked.semidefinite,
        mirrored=mirrored,
        hosts=hosts,
    )
    ignored = sorted(_printable(str(name)) for name in document if name not in FIELDS)
    notes = (f"ignored unknown fields: {', '.join(ignored)}",) if ignored else ()
    return ReadProblem(problem, checked.warnings + notes, provenance)


def _printable(name: str) -> str:
    return name if writable(name) else repr(name)


def _capacity(
    reader: Reader, n: int, k: int, replication: FloatArray | None
) -> tuple[FloatArray | None, FloatArray | None]:
    """Fixed capacities, or service times by broker and item from one model or one for each broker."""
    document = reader.document
    capacity = reader.numbers("capacity", k, "brokers", above=True)
    filters = reader.numbers("filters", n, "items")
    given = [name for name in ("capacity", "model") if document.get(name) is not None]
    if len(given) != 1:
        problem = "both are given" if given else "missing"
        reader.note("capacity, model", problem, "`capacity`, or `model` with `filters` and `replication`")
        return None, None
    if given == ["capacity"]:
        return capacity, None
    for name, value in (("filters", filters), ("replication", replication)):
        if value is None and name not in document:
            reader.note(name, "missing; `model` needs it", "one number for each item")
    models = document["model"]
    several = isinstance(models, list)
    if several and len(models) != k:  # type: ignore[arg-type]
        reader.note("model", f"{len(models)} models for {k} brokers", "one, or one for each broker")  # type: ignore[arg-type]
        return None, None
    rows = [
        _model(reader, model, f"model[{index}]" if several else "model")
        for index, model in enumerate(models if isinstance(models, list) else [models])
    ]
    if filters is None or replication is None or any(row is None for row in rows):
        return None, None
    times = np.array(
        [
            [r[0] + r[1] * f + r[2] * c for f, c in zip(filters, replication, strict=True)]
            for r in rows
            if r is not None
        ]
    )
    for row, item in np.argwhere(times <= 0)[:1]:
        where = f"model[{row}]" if several else "model"
        reader.note(where, f"gives item {item} no processing time, so the capacity would be infinite")
    return None, np.broadcast_to(times, (k, n)).copy()


def _model(reader: Reader, model: object, path: str) -> tuple[float, float, float] | None:
    if not isinstance(model, Mapping):
        reader.note(path, "not an object", "{t_rcv, t_fltr, t_tx} in seconds")
        return None
    reader.unknown(path, model, MODEL)
    times: list[float] = []
    for name in MODEL:
        value = number(model.get(name), least=0.0)
        if value is None:
            shown = "missing" if name not in model else repr(model[name])
            reader.note(f"{path}.{name}", shown, "seconds, zero or more")
        else:
            times.append(value)
    return (times[0], times[1], times[2]) if len(times) == len(MODEL) else None


def _scalar(reader: Reader, field: str, default: float, most: float = np.inf) -> float:
    given = reader.document.get(field, default)
    value = number(given, least=0.0, above=True)
    if value is None or value > most:
        upper = f" up to {most:g}" if np.isfinite(most) else ""
        reader.note(field, repr(given), f"a number above 0{upper}")
        return default
    return value


def _objective(reader: Reader) -> Objective:
    given = reader.document.get("objective", Objective.JOINT.value)
    try:
        return Objective(given)
    except ValueError:
        reader.note("objective", repr(given), ", ".join(each.value for each in Objective))
        return Objective.JOINT


class _Constraints:
    def __init__(self, reader: Reader, items: tuple[str, ...], brokers: tuple[str, ...]) -> None:
        self.reader = reader
        self.items = {name: index for index, name in enumerate(items)}
        self.brokers = {name: index for index, name in enumerate(brokers)}
        given = reader.document.get("constraints")
        if given is not None and not isinstance(given, Mapping):
            reader.note("constraints", "not an object")
        self.given: Mapping[str, object] = given if isinstance(given, Mapping) else {}

    def read(self) -> AllocationConstraints:
        self.reader.unknown("constraints", self.given, CONSTRAINTS)
        return AllocationConstraints(
            max_risk=self._per_broker("max_risk", 1.0, most=1.0),
            max_items=self._per_broker("max_items", np.inf),
            max_volume=self._per_broker("max_volume", np.inf),
            max_delay_s=self._single("max_delay_s"),
            max_replication=self._replication(),
            pinned=self._pinned(),
            forbidden=self._forbidden(),
        )

    def _per_broker(self, name: str, default: float, most: float = np.inf) -> FloatArray:
        """One bound for all brokers, or an object with bounds for some of them."""
        bounds = np.full(len(self.brokers), default)
        given = self.given.get(name)
        if given is None:
            return bounds
        if isinstance(given, Mapping):
            for broker, each in given.items():
                path = f"constraints.{name}.{broker}"
                if broker not in self.brokers:
                    self._unknown_broker(path, broker)
                elif (value := self._bound(path, each, most)) is not None:
                    bounds[self.brokers[broker]] = value
        elif (value := self._bound(f"constraints.{name}", given, most)) is not None:
            bounds[:] = value
        return bounds

    def _bound(self, path: str, given: object, most: float) -> float | None:
        value = number(given, least=0.0, above=True)
        if value is None or value > most:
            upper = f" up to {most:g}" if np.isfinite(most) else ""
            self.reader.note(path, repr(given), f"a number above 0{upper}")
            return None
        return value

    def _single(self, name: str) -> float:
        given = self.given.get(name)
        value = None if given is None else self._bound(f"constraints.{name}", given, np.inf)
        return np.inf if value is None else value

    def _replication(self) -> float:
        bound = self._single("max_replication")
        if np.isfinite(bound) and self.reader.document.get("replication") is None:
            self.reader.note(
                "constraints.max_replication", "needs the replication grade of each item (`replication`)"
            )
        return bound

    def _pinned(self) -> dict[int, int]:
        pins: dict[int, int] = {}
        for item, broker in self._by_item("pinned"):
            if not isinstance(broker, str) or broker not in self.brokers:
                self._unknown_broker(f"constraints.pinned.{item}", broker)
            elif item in self.items:
                pins[self.items[item]] = self.brokers[broker]
        return pins

    def _forbidden(self) -> frozenset[tuple[int, int]]:
        pairs: set[tuple[int, int]] = set()
        for item, value in self._by_item("forbidden"):
            for broker in value if isinstance(value, list) else [value]:
                if not isinstance(broker, str) or broker not in self.brokers:
                    self._unknown_broker(f"constraints.forbidden.{item}", broker)
                elif item in self.items:
                    pairs.add((self.items[item], self.brokers[broker]))
        return frozenset(pairs)

    def _by_item(self, name: str) -> list[tuple[str, object]]:
        given = self.given.get(name)
        if given is None:
            return []
        if not isinstance(given, Mapping):
            self.reader.note(f"constraints.{name}", "not an object", "item names with brokers")
            return []
        for item in given:
            if item not in self.items:
                self.reader.note(
                    f"constraints.{name}.{item}", f"there is no item {item!r}", "a name from `items`"
                )
        return list(given.items())

    def _unknown_broker(self, path: str, broker: object) -> None:
        self.reader.note(path, f"there is no broker {broker!r}", "a name from `brokers`")
