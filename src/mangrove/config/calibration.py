"""The file that `calibration` names: what a broker can carry, as `pipeline calibrate` fitted it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangrove.errors import Mistake

PARAMETERS = ("t_rcv", "t_fltr", "t_tx")
EXPECTED = '{"t_rcv": s, "t_fltr": s, "t_tx": s}, as `pipeline calibrate` writes'


class BrokerModelError(ValueError):
    """A document that holds no broker model, or more than one; `hint` says what is expected."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


@dataclass(slots=True)
class CalibrationFile:
    """What the file says that a broker can carry, and what is wrong with it."""

    capacity: float | None = None
    """Messages per second, each to one subscriber, with no further filters."""
    mistakes: list[Mistake] = field(default_factory=list)


def read_calibration(raw: Any, directory: Path) -> CalibrationFile:
    """The calibration file of a federation file in raw form; empty when it names none."""
    found = CalibrationFile()
    name = raw.get("calibration") if isinstance(raw, dict) else None
    if not isinstance(name, str):
        return found
    path = directory / name
    try:
        model = broker_model(json.loads(path.read_text(encoding="utf-8")))
        time_s = model["t_rcv"] + model["t_tx"]
        if time_s <= 0:
            raise BrokerModelError("has no time for receiving and sending", "times above zero")
        found.capacity = 1.0 / time_s
    except BrokerModelError as error:
        found.mistakes.append(Mistake("calibration", f"{path} {error}", error.hint))
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        found.mistakes.append(Mistake("calibration", f"cannot read {path}: {problem}"))
    except (ValueError, RecursionError) as error:
        found.mistakes.append(Mistake("calibration", f"{path} is not JSON: {error}"))
    return found


def broker_model(document: Any) -> dict[str, float]:
    """`t_rcv`, `t_fltr` and `t_tx`; those of the only broker type, when there are types."""
    if isinstance(document, dict) and isinstance(document.get("models"), dict):
        models = document["models"]
        if len(models) != 1:
            raise BrokerModelError(f"has models of {len(models)} broker types", "keep the one that applies")
        (document,) = models.values()
    if not isinstance(document, dict) or not all(_time(document.get(name)) for name in PARAMETERS):
        raise BrokerModelError("is not a broker model", EXPECTED)
    return {name: float(document[name]) for name in PARAMETERS}


def _time(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= sys.float_info.max
