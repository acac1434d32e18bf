"""Many engines on a network that cuts, swallows, crashes and heals: the promises hold after every step.

The production engines run under virtual time; hypothesis chooses topology and events.
"""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.kit.engines import federation

from mangrove.model.subjects import matches
from mangrove.overlay.links.liveness import Timing
from mangrove.routing.failover.gateway_tables import tables_by_domain
from mangrove.simulation.overlay_network import SimulatedOverlay

NAMES = "abcd"
SUBJECTS = ("x.1", "x.2", "y")
PATTERNS = ("x.1", "x.*", "y", ">")
# Slower than in production, so that a step of virtual time costs fewer events.
TIMING = Timing(heartbeat_s=0.2, min_slack_s=0.1, flap_hold_s=0.1, max_flap_hold_s=0.5, flap_half_life_s=1.0)


class OverlayNetwork(RuleBasedStateMachine):
    """No message is delivered twice, none that its domain never wanted; no frame loops; at rest all agree."""

    @initialize(
        extra=st.sets(st.sampled_from(list(itertools.combinations(NAMES, 2))), max_size=3),
        seed=st.integers(0, 2**16),
    )
    def build(self, extra: set[tuple[str, str]], seed: int) -> None:
        shape = federation(*sorted(set(itertools.pairwise(NAMES)) | extra))
        self.net = SimulatedOverlay(
            shape, seed, timing=TIMING, tables=tables_by_domain(shape), jitter_s=0.002
        )
        self.pairs = sorted(self.net.links)
        self.holes: set[tuple[str, str]] = set()
        self.ever_wanted: dict[str, set[str]] = {name: set() for name in NAMES}
        self.number = 0
        self.net.run(1.0)

    @rule(name=st.sampled_from(NAMES), pattern=st.sampled_from(PATTERNS))
    def subscribe(self, name: str, pattern: str) -> None:
        self.ever_wanted[name].add(pattern)
        self.net.subscribe(name, pattern)

    @rule(index=st.integers(0, 20), size=st.integers(1, 70_000))
    def manage(self, index: int, size: int) -> None:
        """An agent says something to a neighbour's; what is too large is dropped."""
        self.net.manage(*self.pairs[index % len(self.pairs)], bytes(size))

    @rule(index=st.integers(0, 20))
    def break_connection(self, index: int) -> None:
        self.net.reset(*self.pairs[index % len(self.pairs)])

    @rule(index=st.integers(0, 20))
    def toggle_black_hole(self, index: int) -> None:
        pair = self.pairs[index % len(self.pairs)]
        self.holes ^= {pair}
        self.net.black_hole(*pair, pair in self.holes)

    @rule(name=st.sampled_from(NAMES), silent=st.booleans())
    def crash(self, name: str, silent: bool) -> None:
        if name in self.net.engines:
            self.net.crash(name, silent=silent)

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        if name not in self.net.engines:
            self.net.start(name)

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.5]))
    def wait(self, seconds: float) -> None:
        self.net.run(self.net.now + seconds)

    @rule(name=st.sampled_from(NAMES), subject=st.sampled_from(SUBJECTS))
    def publish(self, name: str, subject: str) -> None:
        self.number += 1
        self.net.publish(name, subject, f"{name} {subject} {self.number}".encode())

    @rule(subject=st.sampled_from(SUBJECTS))
    def heal_and_publish(self, subject: str) -> None:
        """When everything is well again, all agree, and exactly those who want a message get it, once."""
        for name in NAMES:
            self.restart(name)
        for pair in self.pairs:
            self.net.black_hole(*pair, False)
        self.holes.clear()
        self.net.run(self.net.now + 8.0)
        for name in NAMES:
            engine = self.net.engines[name]
            assert engine.failed_links == frozenset(), f"{name} believes in failures: {engine.failed_links}"
            assert engine.status(self.net.now).colour == 1
            known = {domain: interest.subjects for domain, interest in engine._remote.interest.domains()}
            assert known == self.ever_wanted, f"{name} does not know what is wanted"
        for name in NAMES:
            self.number += 1
            body = f"{name} {subject} {self.number}".encode()
            self.net.publish(name, subject, body)
            self.net.run(self.net.now + 0.5)
            receivers = {other for other in NAMES if self.net.delivered[other, body]}
            assert receivers == {
                other for other in NAMES if other != name and matches_any(self.ever_wanted[other], subject)
            }

    @invariant()
    def nothing_twice_and_nothing_unwanted(self) -> None:
        assert not self.net.duplicates
        assert not self.net.dropped["hop limit reached"]
        for name, body in self.net.delivered:
            source, subject, _ = body.decode().split()
            assert source != name
            assert matches_any(self.ever_wanted[name], subject)


def matches_any(patterns: set[str], subject: str) -> bool:
    return any(matches(pattern, subject) for pattern in patterns)


TestOverlayNetwork = OverlayNetwork.TestCase
TestOverlayNetwork.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
