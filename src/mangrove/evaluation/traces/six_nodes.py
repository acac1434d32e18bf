"""PCRT's six-node set-up: one link fails at 30 and heals at 60; what each packet of a stream experiences.

Printed (section IV): a service rate of 10,000 bits a unit of time, packets of 1,000 bits, one a unit; 80
units; the link between nodes 2 and 3 fails at 30 and recovers at 60; the heartbeat interval equals OSPF's
hello. The drawing of the topology is lost, and so are the ends of the stream and the values. Assumed here: a
ladder of two rows, 1-2-3 and 4-5-6, a stream from 1 to 3, and a unit of one second. Each hop then takes a
tenth of a unit, which is the link's delay in both simulations; control messages take it too. A queue of ten
packets never fills at this load.

Times have the resolution of the stream, so they are taken from a second, denser stream on the same network.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mangrove.errors import InputError
from mangrove.evaluation.baselines.ospf import OspfTimers, SimulatedRouters
from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.site_pair import SitePair
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.links.liveness import Timing
from mangrove.simulation.overlay_network import SimulatedOverlay

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
LINKS: tuple[SitePair, ...] = (
    *(("n1", "n2"), ("n2", "n3"), ("n4", "n5"), ("n5", "n6")),
    *(("n1", "n4"), ("n2", "n5"), ("n3", "n6")),
)
SOURCE, RECEIVER = "n1", "n3"
FAILING: SitePair = ("n2", "n3")
HOP_S = 1000 / 10_000
"""Bits of a packet over the service rate."""
FAILS_S, HEALS_S, ENDS_S = 30.0, 60.0, 80.0
PRINTED_RATE, FINE_RATE = 1.0, 50.0
"""Packets a unit of time."""
ORIGINAL_S = 2 * HOP_S
SAME_S = 0.001

HELLO_S, DEAD_S = 1.0, 4.0
SLOW = Timing(
    heartbeat_s=HELLO_S,
    min_slack_s=DEAD_S - 2 * HELLO_S,
    max_slack_s=DEAD_S - 2 * HELLO_S,
    first_deviation_s=(DEAD_S - 2 * HELLO_S) / 4,
    only_way_s=DEAD_S,
)
"""The production monitor with OSPF's intervals: a dead interval of four heartbeats."""
OSPF = OspfTimers(hello_s=HELLO_S, dead_s=DEAD_S)
OSPF_PRINTED = OspfTimers(
    hello_s=HELLO_S, dead_s=DEAD_S, spf_delay_s=5.0, spf_hold_s=10.0, spf_most_hold_s=10.0
)
"""With the computation delays that PCRT's section III gives as typical."""

SCHEMES = ("mangrove", "mangrove_two_paths", "mangrove_slow", "ospf", "ospf_printed")
LABELS = {
    "mangrove": "Mangrove",
    "mangrove_two_paths": "Mangrove, two paths",
    "mangrove_slow": "Mangrove, heartbeat 1, dead 4",
    "ospf": "OSPF-like, hello 1, dead 4",
    "ospf_printed": "OSPF-like, SPF delay 5, hold 10",
}

Trace = tuple[tuple[float, float | None], ...]
"""Packets by the time they were sent, and how long each took; None is lost."""


@dataclass(frozen=True, slots=True)
class SixNodeRun:
    """One scheme in one seed; times in units, from the failure and from the recovery."""

    reconverged: float
    """t3 - t2: until a packet arrives that was sent after the failure."""
    lost: int
    """Of the printed stream."""
    healed: float
    """t4 - 60: until a packet sent after the recovery arrives by the first path; NaN if none does."""
    trace: Trace


@dataclass(frozen=True)
class SixNodeSummary:
    """One scheme over all seeds."""

    scheme: str
    reconverged: Estimate
    lost: Estimate
    healed: Estimate
    trace: Trace
    """Of the first seed."""


@dataclass(frozen=True)
class SixNodeResult:
    """All schemes."""

    seeds: tuple[int, ...]
    schemes: tuple[SixNodeSummary, ...]

    def of(self, scheme: str) -> SixNodeSummary:
        """The summary of one scheme."""
        return next(summary for summary in self.schemes if summary.scheme == scheme)

    def missed(self) -> list[str]:
        """In words, which of the paper's findings do not hold against OSPF as the paper describes it."""
        return self._behind("ospf_printed")

    def notes(self) -> list[str]:
        """In words, where routers that compute at once are ahead."""
        return self._behind("ospf")

    def _behind(self, rival: str) -> list[str]:
        theirs = self.of(rival)
        words = {
            "reconverged": "delivers again after",
            "healed": "uses the healed link after",
            "lost": "loses",
        }
        return [
            f"{LABELS[scheme]} {words[what]} {mine.rounded(2)}; {LABELS[rival]}: {other.rounded(2)}"
            for scheme in ("mangrove", "mangrove_slow")
            for what in words
            for mine, other in [(getattr(self.of(scheme), what), getattr(theirs, what))]
            if not mine.mean <= other.mean
        ]


def run_six_nodes(
    seeds: Sequence[int],
    schemes: Sequence[str] = SCHEMES,
    on_run: Callable[[int, int], None] | None = None,
) -> SixNodeResult:
    """Every scheme with the same seeds, which move the stream and the hellos against the failure."""
    if not seeds:
        raise InputError("the experiment needs at least one seed")
    summaries = []
    done = 0
    for scheme in schemes:
        runs = []
        for seed in seeds:
            runs.append(run_once(scheme, seed))
            done += 1
            if on_run is not None:
                on_run(done, len(schemes) * len(seeds))
        summaries.append(
            SixNodeSummary(
                scheme,
                estimate([run.reconverged for run in runs]),
                estimate([float(run.lost) for run in runs]),
                estimate([run.healed for run in runs]),
                runs[0].trace,
            )
        )
    return SixNodeResult(tuple(seeds), tuple(summaries))


def run_once(scheme: str, seed: int) -> SixNodeRun:
    """One scheme in one seed: the printed stream and the dense one together."""
    chance = random.Random(f"six nodes {seed}")
    net, publish = _overlay(scheme, seed) if scheme.startswith("mangrove") else _routers(scheme, seed)
    begin = net.now
    streams: dict[float, list[tuple[float, bytes]]] = {}
    for rate in (PRINTED_RATE, FINE_RATE):
        offset = chance.random() / rate
        count = int(ENDS_S * rate)
        streams[rate] = [(offset + step / rate, f"{rate:g} {step}".encode()) for step in range(count)]
        for time, body in streams[rate]:
            net.at(begin + time, partial(publish, body))
    net.at(begin + FAILS_S, partial(net.black_hole, *FAILING, True))
    net.at(begin + HEALS_S, partial(net.black_hole, *FAILING, False))
    net.run(begin + ENDS_S + 5.0)
    traces = {
        rate: tuple((time, _latency(net.delivered_at, body, begin + time)) for time, body in stream)
        for rate, stream in streams.items()
    }
    fine = traces[FINE_RATE]
    after = [time + took for time, took in fine if time > FAILS_S and took is not None]
    back = [
        time + took
        for time, took in fine
        if time > HEALS_S and took is not None and took <= ORIGINAL_S + SAME_S
    ]
    printed = traces[PRINTED_RATE]
    return SixNodeRun(
        min(after, default=float("nan")) - FAILS_S,
        sum(took is None for _, took in printed),
        min(back, default=float("nan")) - HEALS_S,
        printed,
    )


def _latency(arrivals: Mapping[tuple[str, bytes], float], body: bytes, sent_at: float) -> float | None:
    at = arrivals.get((RECEIVER, body))
    return None if at is None else at - sent_at


def six_node_federation() -> Federation:
    """The ladder; `twice.>` has two paths."""
    return Federation(
        name="six-nodes",
        domains={name: Domain(name=name, base_port=1) for name in NODES},
        links=tuple(Link(between=pair, delay_ms=1000 * HOP_S) for pair in LINKS),
        topics=TopicRules((Contract(match="twice.>", paths=2),)),
    )


def _overlay(scheme: str, seed: int) -> tuple[SimulatedOverlay, Callable[[bytes], None]]:
    timing = SLOW if scheme == "mangrove_slow" else Timing()
    net = SimulatedOverlay(six_node_federation(), seed, timing=timing)
    subject = "twice.stream" if scheme == "mangrove_two_paths" else "once.stream"
    net.subscribe(RECEIVER, subject)
    net.run(10.0 + random.Random(seed).uniform(0.0, timing.heartbeat_s))

    def publish(body: bytes) -> None:
        net.publish(SOURCE, subject, body)

    return net, publish


def _routers(scheme: str, seed: int) -> tuple[SimulatedRouters, Callable[[bytes], None]]:
    timers = OSPF_PRINTED if scheme == "ospf_printed" else OSPF
    net = SimulatedRouters(dict.fromkeys(LINKS, 1000 * HOP_S), seed, timers)
    net.run(60.0)

    def publish(body: bytes) -> None:
        net.publish(SOURCE, RECEIVER, body)

    return net, publish
