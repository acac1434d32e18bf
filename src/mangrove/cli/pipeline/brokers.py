"""Which brokers a profile's problem is for: those of a federation file, or so many alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.pipelines.jobs.profile import Brokers

DEFAULT_BROKERS = 2


def choose_brokers(
    federation: Path | None,
    domains: frozenset[str],
    capacity: float | None,
    count: int | None,
    model: Path | None,
    max_risk: float | None,
) -> Brokers:
    """The brokers, with capacities or a model; refuses what does not go together."""
    from mangrove.pipelines.jobs.profile import Brokers

    if capacity is not None and not 0 < capacity < float("inf"):
        raise InputError(f"--capacity: {capacity}", hint="messages per second, above 0")
    if max_risk is not None and not 0 < max_risk <= 1:
        raise InputError(f"--max-risk: {max_risk}", hint="a probability, above 0 and up to 1")
    if capacity is not None and model is not None:
        raise InputError("--capacity and --model exclude each other", hint="give one of them")
    fitted = None if model is None else read_model(model)
    if federation is None:
        if capacity is None and fitted is None:
            raise InputError(
                "nothing says what the brokers can carry",
                hint="give --capacity N --brokers K, or --model FILE --brokers K, or --federation FILE",
            )
        names = tuple(f"broker{number + 1}" for number in range(count or DEFAULT_BROKERS))
        capacities = None if capacity is None else (capacity,) * len(names)
        return Brokers(names, capacities, fitted, max_risk)
    if count is not None:
        raise InputError("--brokers and --federation exclude each other", hint="the file has the brokers")
    return _from_federation(federation, domains, capacity, fitted, max_risk)


def read_model(path: Path) -> dict[str, float]:
    """`t_rcv`, `t_fltr` and `t_tx` from a file; that of the only broker type, when there are types."""
    from mangrove.config.calibration import BrokerModelError, broker_model

    try:
        return broker_model(json.loads(path.read_text(encoding="utf-8")))
    except BrokerModelError as error:
        raise InputError(f"{path} {error}", hint=error.hint) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read the model {path}: {error}") from error


def _from_federation(
    path: Path,
    domains: frozenset[str],
    capacity: float | None,
    model: dict[str, float] | None,
    max_risk: float | None,
) -> Brokers:
    from mangrove.config import read_federation
    from mangrove.model.endpoints import fixed_endpoints
    from mangrove.pipelines.jobs.profile import Brokers

    federation = read_federation(path).require()
    if unknown := sorted(domains - federation.domains.keys()):
        raise InputError(
            f"{path} has no domain {', '.join(unknown)}", hint=f"it has: {', '.join(federation.domains)}"
        )
    names: list[str] = []
    capacities: list[float] = []
    for name, domain in federation.domains.items():
        if domains and name not in domains:
            continue
        endpoints = fixed_endpoints(domain)
        known = [edge.capacity for edge in domain.edges]
        for place, broker in enumerate(endpoints.edges or (endpoints.head,)):
            own = known[place] if place < len(known) else None
            names.append(broker.name)
            capacities.append(own if own is not None else capacity or 0.0)
    lacking = [name for name, each in zip(names, capacities, strict=True) if not each]
    if model is None and lacking:
        raise InputError(
            f"{path} gives no capacity for {', '.join(lacking)}",
            hint="add `capacity` to its edges, or give --capacity or --model",
        )
    chosen = [name for name in federation.domains if not domains or name in domains]
    return Brokers(
        tuple(names),
        None if model is not None else tuple(capacities),
        model,
        max_risk,
        federation,
        chosen[0] if len(chosen) == 1 else "",
    )
