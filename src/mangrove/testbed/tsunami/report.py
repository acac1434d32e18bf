"""What a run came to, and what is known of it meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from mangrove.model.agents.status import AgentStatus
from mangrove.model.events.event_log import Event, document
from mangrove.testbed.tsunami.account import Share, TopicAccount
from mangrove.testbed.tsunami.centres import Kind


class PhaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """One phase: what should come of it, and whether it did."""

    name: str
    expectation: str
    held: bool
    details: tuple[str, ...]
    """What was seen."""
    start_s: float
    """Since the run began."""
    seconds: float
    shares: dict[Kind, Share] = {}


class TsunamiReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    seed: int
    rabbitmq: bool
    seconds: float
    phases: tuple[PhaseReport, ...]
    topics: tuple[TopicAccount, ...]
    story: tuple[Event, ...]
    """What gateways and agents decided while messages flowed, in order of time."""
    began_at: float
    """When messages began to flow, by the wall clock."""

    def document(self) -> dict[str, object]:
        """As plain data."""
        plain: dict[str, object] = msgspec.to_builtins(msgspec.structs.replace(self, story=()))
        return plain | {"story": [document(event) for event in self.story], "problems": self.problems()}

    def problems(self) -> list[str]:
        """What must not be: an alert that did not arrive, or a message of which nobody knows."""
        found = []
        for each in self.topics:
            not_said = sum(each.withheld.values()) + sum(each.dropped.values())
            if each.kind is Kind.ALERT and each.delivered < each.due and not each.lost:
                found.append(f"{each.topic}: {not_said:,} alerts were withheld or dropped")
            if each.lost > 0:
                found.append(
                    f"{each.topic}: {each.lost:,} deliveries are missing and nobody has counted them"
                )
            if each.lost < 0:
                found.append(f"{each.topic}: {-each.lost:,} more were counted as dropped than are missing")
            if each.duplicated:
                found.append(f"{each.topic}: {each.duplicated:,} came twice")
        return found


class Moment(msgspec.Struct, frozen=True):
    """What is known while it runs."""

    phase: str
    elapsed_s: float
    status: AgentStatus | None
    """Of the national centre's agent."""
    counts: Counter[str]
    """Offered, withheld and delivered by kind, since the run began."""


Look = Callable[[Moment], None]
Tell = Callable[[str], None]
