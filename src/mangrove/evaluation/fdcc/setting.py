"""How an experiment is run: the agents' parameters, and readings of what the thesis leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import msgspec

from mangrove.evaluation.fdcc.workload import Ranges
from mangrove.model.balancing import Balancing
from mangrove.model.congestion.parameters import Congestion

STOPPING = (0.0, *Congestion().ladder[1:])
"""Stops publishers of the least useful region; the file's default lets them say a little."""
NO_REGIONS = (math.inf,) * len(STOPPING)
HALF = (0.5, 0.5)
"""What is left of every broker's bandwidth by the thesis's first assumption (`e:2456-2458`)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything but the seed. The thesis's values, where it prints any."""

    ranges: Ranges = field(default_factory=Ranges)
    congestion: Congestion = field(default_factory=lambda: Congestion(ladder=STOPPING))
    balancing: Balancing = field(default_factory=Balancing)

    def limiting(self, **values: object) -> Setting:
        """The same with other parameters of congestion control."""
        return replace(self, congestion=msgspec.structs.replace(self.congestion, **values))

    def drawn(self, **values: object) -> Setting:
        """The same with other inputs."""
        return replace(self, ranges=replace(self.ranges, **values))  # type: ignore[arg-type]
