"""`plan allocate --risk empirical`: the scenarios that go with a problem file."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.planning.problem.problem import Problem


class RiskKind(str, Enum):  # noqa: UP042 - typer shows the values of a str enum
    """What the probability of overload is taken from."""

    NORMAL = "normal"
    EMPIRICAL = "empirical"


RiskKindOption = Annotated[
    RiskKind,
    typer.Option(
        "--risk", help="normal: from means and covariances. empirical: from observed windows and their tails."
    ),
]
ScenariosOption = Annotated[
    Path | None,
    typer.Option(help="Observed windows for --risk empirical. [default: scenarios.npz beside the problem]"),
]


def with_risk(problem: Problem, kind: RiskKind, problem_path: Path, given: Path | None) -> Problem:
    """The problem, with its scenarios where risks are to be taken from them."""
    import numpy as np

    from mangrove.planning.empirical.document import FILE_NAME, REMEDY, read_scenarios

    if kind is RiskKind.NORMAL:
        if given is not None:
            raise InputError("--scenarios goes with --risk empirical")
        return problem
    if given is None and str(problem_path) == "-":
        raise InputError(
            "the problem comes from standard input, its scenarios do not", hint="give --scenarios FILE"
        )
    path = problem_path.parent / FILE_NAME if given is None else given
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"there are no scenarios at {path}", hint=REMEDY) from None
    except (OSError, ValueError, EOFError, AttributeError) as error:
        raise InputError(f"cannot read the scenarios {path}: {error}", hint=REMEDY) from error
    return replace(problem, scenarios=read_scenarios(arrays, problem.items, problem.broker_count, str(path)))
