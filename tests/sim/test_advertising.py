"""Advertisements over the production gateways' engines, in virtual time, within their limits."""

from __future__ import annotations

import msgspec
from tests.kit.engines import federation
from tests.kit.peers import WALL_S, Peer

from mangrove.control.instructions import Instruction, TellPeer
from mangrove.model.agents.peers import PeerMessage
from mangrove.model.federation import Federation
from mangrove.simulation.overlay_network import SimulatedOverlay

STEP_S = 0.05
TOPICS = 30_000
decoder: msgspec.json.Decoder[PeerMessage] = msgspec.json.Decoder(PeerMessage)


class AgentsOnOverlay:
    """An agent's neighbours and advertisements in each domain, heard through the gateways."""

    def __init__(self, shape: Federation) -> None:
        self.net = SimulatedOverlay(shape, seed=1)
        self.net.run(1.0)
        self.peers = {name: Peer(shape, name, 1.0, WALL_S) for name in shape.domains}
        for name, peer in self.peers.items():
            self.carry(name, peer.start(1.0))

    def carry(self, name: str, instructions: list[Instruction]) -> None:
        for each in instructions:
            assert isinstance(each, TellPeer)
            self.net.manage(name, each.peer, msgspec.json.encode(each.message))

    def run(self, seconds: float) -> None:
        end = self.net.now + seconds
        while self.net.now < end:
            self.net.run(self.net.now + STEP_S)
            now = self.net.now
            for name, peer in self.peers.items():
                heard, self.net.managed[name] = self.net.managed[name], []
                for sender, body in heard:
                    self.carry(name, peer.handle(sender, decoder.decode(body), now))
                if peer.timer() <= now:
                    self.carry(name, peer.handle_timer(now))

    def known(self) -> dict[str, int]:
        return {name: peer.advertising.advertised for name, peer in self.peers.items()}

    def dropped(self) -> int:
        return sum(
            sum(link.management.dropped.values())
            for engine in self.net.engines.values()
            for link in engine.status(self.net.now).links.values()
        )


def test_many_topics_pass_the_gateways_without_a_drop() -> None:
    agents = AgentsOnOverlay(federation(("a", "b"), ("b", "c")))
    agents.run(3.0)
    topics = {f"plant7.line{number % 50}.sensor{number}": 1 for number in range(TOPICS)}
    agents.carry("a", agents.peers["a"].advertising.set_publishers(topics, agents.net.now))
    agents.run(15.0)
    assert agents.known() == dict.fromkeys("abc", TOPICS)
    assert agents.dropped() == 0
    failures = [
        link.failures for e in agents.net.engines.values() for link in e.status(agents.net.now).links.values()
    ]
    assert not any(failures)


def test_a_slow_link_drops_and_the_tables_become_the_same_all_the_same() -> None:
    agents = AgentsOnOverlay(federation(("a", "b"), ("b", "c")))
    for link in agents.net.links.values():
        link.bytes_per_s = 60_000.0
    agents.run(3.0)
    topics = {f"plant7.line{number % 50}.sensor{number}": 1 for number in range(10_000)}
    agents.carry("a", agents.peers["a"].advertising.set_publishers(topics, agents.net.now))
    agents.run(150.0)
    assert agents.dropped() > 0
    assert agents.known() == dict.fromkeys("abc", 10_000)
    assert all(peer.neighbours.online() for peer in agents.peers.values())
