"""A plan for one domain: for each item its topics, its broker and its mirror; and the cases beside it."""

from __future__ import annotations

import msgspec

from mangrove.model.plans.figures import PlanFigures

FORMAT_VERSION = 1


class PlannedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A set of topics that is placed as one (RQMOM §4.3, GEMOM §III)."""

    item: str
    topics: tuple[str, ...]
    """Subjects or patterns."""
    mirrored: bool = False
    """Whether a contract of its topics asks for a mirror."""
    both: bool = False
    """Whether one asks that every message is sent to broker and mirror: then both carry its load."""


class Placing(msgspec.Struct, frozen=True, kw_only=True):
    """Where an item is: names of brokers."""

    primary: str
    mirror: str = ""


class PlanCase(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force in a state: these brokers are down, the load is so many times the planned one."""

    failed: tuple[str, ...] = ()
    load: float = 1.0
    off: tuple[str, ...] = ()
    """Working brokers that are not needed."""
    placing: dict[str, Placing] = {}
    """By item."""
    risk: dict[str, float] = {}
    """Probability of overload, by broker."""
    joint_ok: float = 1.0
    feasible: bool = True
    reason: str = ""

    @property
    def unused(self) -> frozenset[str]:
        """Brokers that it does without."""
        return frozenset(self.failed) | frozenset(self.off)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent puts in force. The first case is that of the normal state."""

    version: int = FORMAT_VERSION
    federation: str
    domain: str
    topology: str
    """Fingerprint of the domain's brokers, hosts and contracts: a plan serves no other."""
    made_at: float
    """Seconds since 1970."""
    data_until: float
    """The end of the telemetry that it was computed from."""
    items: tuple[PlannedItem, ...] = ()
    cases: tuple[PlanCase, ...] = ()
    source: str = ""
    """For people: which command made it of what."""
    figures: PlanFigures | None = None
    """What it was computed from, so that another plan can be judged by the same."""

    @property
    def normal(self) -> PlanCase:
        """The case of the normal state."""
        return self.cases[0]

    def case_for(self, failed: frozenset[str], load: float = 1.0) -> PlanCase | None:
        """The case of a state, or else the nearest one that covers it; None when nothing does.

        A case covers a state when it needs no broker that is down and was made for at least this load.
        Nearest: keeps its bounds, then leaves the fewest working brokers unused, then has the least load to
        spare (RQMOM §4.3.1).
        """
        for case in self.cases:
            if frozenset(case.failed) == failed and case.load == load:
                return case
        covering = [case for case in self.cases if case.unused >= failed and case.load >= load]
        return min(
            covering,
            key=lambda case: (not case.feasible, len(case.unused - failed), case.load - load),
            default=None,
        )
