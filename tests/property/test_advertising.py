"""Advertisements on any network, with losses, cuts and restarts: at rest, all know what is published."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.kit.engines import federation
from tests.kit.peers import WALL_S, SimulatedPeers

from mangrove.control.advertisements.local_topics import PRESUMED_S
from mangrove.control.advertisements.sources import SOURCE_LEASE_S

NAMES = "abcde"
TOPICS = tuple(f"t.{number}" for number in range(6))
names = st.sampled_from(NAMES)


class Advertisements(RuleBasedStateMachine):
    """Whatever happens, the tables become the same, and what is said becomes little."""

    @initialize(
        extra=st.sets(st.sampled_from(list(itertools.combinations(NAMES, 2))), max_size=5),
        seed=st.integers(0, 2**16),
        loss=st.sampled_from([0.0, 0.1, 0.4]),
        revive=st.booleans(),
    )
    def build(self, extra: set[tuple[str, str]], seed: int, loss: float, revive: bool) -> None:
        self.revive = revive
        shape = federation(*sorted(set(itertools.pairwise(NAMES)) | extra))
        self.pairs = [frozenset(link.between) for link in shape.links]
        self.net = SimulatedPeers(shape, seed)
        self.net.loss = loss

    @rule(name=names, topic=st.sampled_from(TOPICS), wanted=st.booleans())
    def publish(self, name: str, topic: str, wanted: bool) -> None:
        self.net.publish(name, topic, wanted)

    @rule(name=names)
    def stop(self, name: str) -> None:
        if name in self.net.peers:
            self.net.stop(name)

    @rule(name=names, back_s=st.sampled_from([0.0, 0.0, 3600.0]))
    def start(self, name: str, back_s: float) -> None:
        """An agent is replaced, perhaps on a machine whose clock is behind."""
        self.net.shift[name] = WALL_S - back_s
        self.net.start(name)

    @rule(index=st.integers(0, 20))
    def toggle_cut(self, index: int) -> None:
        self.net.cut ^= {self.pairs[index % len(self.pairs)]}

    @rule(seconds=st.sampled_from([0.01, 1.0, 15.0, 150.0]))
    def run(self, seconds: float) -> None:
        self.net.run(seconds)

    @invariant()
    def consistent(self) -> None:
        if hasattr(self, "net"):
            assert not self.net.problems()

    def teardown(self) -> None:
        if not hasattr(self, "net"):
            return
        net = self.net
        net.loss = 0.0
        net.cut.clear()
        for name in NAMES:
            if self.revive and name not in net.peers:
                net.start(name)
        # What was known of agents that died, and what they are presumed to publish, runs out.
        net.run(SOURCE_LEASE_S + PRESUMED_S + 60.0)
        dead = {link.pair for link in net.federation.links if not net.peers.keys() >= set(link.between)}
        for name, peer in net.peers.items():
            there = net.federation.reachable(name, dead) | {name}
            truth = {(topic, source) for source in there for topic in net.published[source]}
            assert peer.table() == truth, f"{name} knows something else"
        assert not net.problems()
        net.sent.clear()
        net.run(100.0)
        assert not net.sent["Advertise"]
        assert not net.sent["AdvertisedBuckets"]


TestAdvertisements = Advertisements.TestCase
TestAdvertisements.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
