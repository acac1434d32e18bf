"""What became of the messages, class by class, in one stretch of time: pure counting over exact records."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from mangrove.testbed.damage.workload import USEFUL, DamagePlan

STAMP = struct.Struct(">IIQ")
"""Publisher, its sequence from 1, and when it was sent in nanoseconds of the machine's monotonic clock."""


@dataclass(slots=True)
class Spoken:
    """What publishers wanted to say: every message, and whether it was sent or withheld."""

    at_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    """By publisher and sequence."""
    withheld: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class Heard:
    """What one subscriber got, in the order of arrival."""

    arrivals: list[tuple[int, int, int]] = field(default_factory=list)
    """Publisher, sequence, and nanosecond of arrival."""


class ClassAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries of one class: a message counts once for each subscriber of its topic."""

    offered: int = 0
    """What publishers wanted to say meanwhile."""
    withheld: int = 0
    """Of these, what was not sent because of a limit."""
    delivered: int = 0
    """What arrived meanwhile, whenever it was said."""
    in_time: int = 0
    """Of what was offered: what arrived before its deadline."""
    lost: int = 0
    """Of what was offered: sent, and never arrived."""
    duplicated: int = 0
    useful: int = 0
    """Of what arrived meanwhile: useful to who got it."""
    useful_in_time: int = 0
    utility: float = 0.0
    """Of what arrived meanwhile, summed up."""
    worst_ms: float = 0.0
    """Of what arrived meanwhile: the longest way."""

    @property
    def in_time_share(self) -> float:
        """Of what was offered; 1 if nothing was."""
        return self.in_time / self.offered if self.offered else 1.0


class DamageAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a stretch of time."""

    seconds: float
    classes: dict[str, ClassAccount]

    @property
    def useful_s(self) -> float:
        """Useful deliveries a second."""
        return sum(each.useful for each in self.classes.values()) / self.seconds

    @property
    def useful_in_time_s(self) -> float:
        """Those of them that came before their deadline."""
        return sum(each.useful_in_time for each in self.classes.values()) / self.seconds

    @property
    def utility_s(self) -> float:
        """Utility delivered a second."""
        return sum(each.utility for each in self.classes.values()) / self.seconds


def account_of(
    plan: DamagePlan, spoken: Spoken, heard: Iterable[Heard], start_ns: int, end_ns: int
) -> DamageAccount:
    """Count what was said and what arrived between two moments."""
    counts: dict[str, Counter[str]] = {speaker.quality.value: Counter() for speaker in plan.speakers}
    utility = dict.fromkeys(counts, 0.0)
    worst_ms = dict.fromkeys(counts, 0.0)
    said_meanwhile = {key for key, at_ns in spoken.at_ns.items() if start_ns <= at_ns < end_ns}
    for publisher, sequence in said_meanwhile:
        speaker = plan.speakers[publisher]
        copies = plan.topics[speaker.topic].subscribers
        counted = counts[speaker.quality.value]
        counted["offered"] += copies
        if (publisher, sequence) in spoken.withheld:
            counted["withheld"] += copies
        else:
            counted["lost"] += copies  # those that arrived are taken off below
    for subscriber in heard:
        seen: set[tuple[int, int]] = set()
        for publisher, sequence, arrived_ns in subscriber.arrivals:
            key = (publisher, sequence)
            speaker = plan.speakers[publisher]
            counted = counts[speaker.quality.value]
            meanwhile = start_ns <= arrived_ns < end_ns
            if key in seen:
                counted["duplicated"] += meanwhile
                continue
            seen.add(key)
            late_ns = arrived_ns - spoken.at_ns[key]
            in_time = late_ns <= plan.topics[speaker.topic].deadline_s * 1e9
            value = plan.utility(publisher, sequence)
            useful = value >= USEFUL
            if key in said_meanwhile:
                counted["lost"] -= 1
                counted["in_time"] += in_time
            if meanwhile:
                counted["delivered"] += 1
                counted["useful"] += useful
                counted["useful_in_time"] += useful and in_time
                utility[speaker.quality.value] += value
                worst_ms[speaker.quality.value] = max(worst_ms[speaker.quality.value], late_ns / 1e6)
    return DamageAccount(
        seconds=(end_ns - start_ns) / 1e9,
        classes={
            name: ClassAccount(**counted, utility=utility[name], worst_ms=worst_ms[name])
            for name, counted in counts.items()
        },
    )


def ratio(controlled: float, uncontrolled: float) -> float | None:
    """How many times as much; None if there was nothing to compare with."""
    return controlled / uncontrolled if uncontrolled else None


def progress(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Counters of several processes, added up."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
