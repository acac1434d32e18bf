"""A study: an experiment of many seeds, the same with one thing changed at a time, figures, and a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer

from mangrove.cli.measurement.options import plain, report

if TYPE_CHECKING:
    from mangrove.cli.measurement.trials.place import Place
    from mangrove.evaluation.trials.experiment import Experiment

Setting = TypeVar("Setting")
Result = TypeVar("Result")

FiguresOption = Annotated[
    Path | None, typer.Option("--figures", help="Draw figures into this folder, as PNG files.")
]


@dataclass(frozen=True)
class Study(Generic[Setting, Result]):
    """How the trials of a study are summed up and shown. Settings beside the main one are its variants."""

    trials: Experiment[Setting, Result]
    summarise: Callable[[tuple[int, ...], tuple[Result, ...]], Any]
    """Seeds and results of the main setting; gives a dataclass with `sensitivity`, `differs` and `missed`."""
    summarise_variant: Callable[[str, Sequence[Result]], object]
    draw: Callable[[Any, Path], object]
    show: Callable[[Any], None]

    def run(
        self, seeds: Sequence[int], variant_seeds: int, place: Place, figures: Path | None, *, as_json: bool
    ) -> None:
        """Play all trials, those of the variants on the first seeds alone, and report what came of them."""
        from mangrove.evaluation.trials.experiment import MAIN

        varied = seeds[:variant_seeds]
        variants = [name for name in self.trials.settings if name != MAIN] if varied else []
        tasks = [*self.trials.tasks(seeds, [MAIN]), *self.trials.tasks(varied, variants)]
        found = place.collect(self.trials, tasks)
        result = self.summarise(found.seeds(MAIN), tuple(found.of(MAIN)))
        sensitivity = tuple(self.summarise_variant(name, found.of(name)) for name in variants)
        result = replace(result, sensitivity=sensitivity)
        if figures is not None:
            self.draw(result, figures)
        document = plain(result) | {"differs": result.differs()}
        del document["experiments"]
        name, failed = self.trials.name, found.failed
        report(name, document, result.missed(), lambda: self.show(result), as_json=as_json, failed=failed)
