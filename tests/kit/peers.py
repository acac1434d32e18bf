"""Agents' neighbours and advertisements on a network that delays, loses and restarts, in virtual time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from random import Random

import msgspec

from mangrove.control.advertising import Advertising
from mangrove.control.instructions import Instruction, TellPeer
from mangrove.control.neighbours import NeighbourCame, Neighbours, NeighbourWent
from mangrove.model.agents.peers import (
    MAX_PEER_MESSAGE_BYTES,
    LoadTold,
    PeerMessage,
    PeerRegister,
    PeerRegistered,
)
from mangrove.model.federation import Federation

WALL_S = 1_800_000_000.0


class Peer:
    """What a brain has of neighbours and advertisements, put together as a brain does."""

    def __init__(self, federation: Federation, domain: str, now: float, clock_shift_s: float) -> None:
        self.neighbours = Neighbours(federation, domain, int((now + clock_shift_s) * 1000))
        self.advertising = Advertising(federation, domain, clock_shift_s=clock_shift_s, now=now)

    def start(self, now: float) -> list[Instruction]:
        return self._follow(self.neighbours.start(now), now)

    def handle(self, peer: str, message: PeerMessage, now: float) -> list[Instruction]:
        match message:
            case PeerRegister() | PeerRegistered() | LoadTold():
                return self._follow(self.neighbours.handle(peer, message, now), now)
            case _:
                return self.advertising.handle(peer, message, now)  # type: ignore[arg-type]

    def handle_timer(self, now: float) -> list[Instruction]:
        told = self._follow(self.neighbours.handle_timer(now), now)
        return told + self.advertising.handle_timer(now)

    def timer(self) -> float:
        return min(self.neighbours.timer(), self.advertising.timer())

    def _follow(self, told: list[Instruction], now: float) -> list[Instruction]:
        for change in self.neighbours.take_changes():
            match change:
                case NeighbourCame(peer, restarted):
                    told = told + self.advertising.neighbour_online(peer, now, restarted=restarted)
                case NeighbourWent(peer):
                    self.advertising.neighbour_offline(peer)
        return told

    def table(self) -> set[tuple[str, str]]:
        """Topics and sources, as known here."""
        return {
            (topic, each.source)
            for topic in self.advertising.topics(limit=10**6)
            for each in self.advertising.publishers_of(topic)
        }


class SimulatedPeers:
    """Messages travel in order on each link, after 5 ms, unless they get lost."""

    def __init__(self, federation: Federation, seed: int) -> None:
        self.federation = federation
        self.now = 0.0
        self.loss = 0.0
        self.cut: set[frozenset[str]] = set()
        self.sent: Counter[str] = Counter()
        self.peers: dict[str, Peer] = {}
        self.shift: dict[str, float] = dict.fromkeys(federation.domains, WALL_S)
        self.published: dict[str, set[str]] = {name: set() for name in federation.domains}
        self._random = Random(seed)
        self._numbers = itertools.count()
        self._travelling: list[tuple[float, int, str, str, bytes]] = []
        self._decoder = msgspec.json.Decoder(PeerMessage)
        for name in federation.domains:
            self.start(name)

    def start(self, name: str) -> None:
        """Start an agent, or one in the place of another; its clients come back to it."""
        peer = self.peers[name] = Peer(self.federation, name, self.now, self.shift[name])
        self._carry(name, peer.start(self.now))
        self.publish_all(name, sorted(self.published[name]))

    def stop(self, name: str) -> None:
        """An agent dies."""
        del self.peers[name]

    def publish(self, name: str, topic: str, wanted: bool = True) -> None:
        """A client begins or ceases to publish."""
        (self.published[name].add if wanted else self.published[name].discard)(topic)
        if name in self.peers:
            self._carry(name, self.peers[name].advertising.set_publishers({topic: int(wanted)}, self.now))

    def publish_all(self, name: str, topics: list[str]) -> None:
        """A client begins to publish all of these."""
        self.published[name].update(topics)
        counts = dict.fromkeys(topics, 1)
        self._carry(name, self.peers[name].advertising.set_publishers(counts, self.now))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            timers = [(peer.timer(), name) for name, peer in self.peers.items()]
            due, name = min(timers, default=(math.inf, ""))
            if self._travelling and self._travelling[0][0] <= due:
                due = self._travelling[0][0]
                if due > end:
                    break
                self.now = max(self.now, due)
                _, _, sender, receiver, raw = heapq.heappop(self._travelling)
                if receiver in self.peers:
                    message = self._decoder.decode(raw)
                    self._carry(receiver, self.peers[receiver].handle(sender, message, self.now))
            else:
                if due > end:
                    break
                self.now = max(self.now, due)
                self._carry(name, self.peers[name].handle_timer(self.now))
                assert self.peers[name].timer() > self.now, "a timer that is due at once for ever"
        self.now = end

    def _carry(self, sender: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            assert isinstance(instruction, TellPeer)
            raw = msgspec.json.encode(instruction.message)
            assert len(raw) <= MAX_PEER_MESSAGE_BYTES
            self.sent[type(instruction.message).__name__] += 1
            pair = frozenset((sender, instruction.peer))
            if pair in self.cut or self._random.random() < self.loss:
                continue
            item = (self.now + 0.005, next(self._numbers), sender, instruction.peer, raw)
            heapq.heappush(self._travelling, item)

    def problems(self) -> list[str]:
        """Invariants that do not hold anywhere."""
        return [
            f"{name}: {problem}"
            for name, peer in self.peers.items()
            for problem in (*peer.advertising.problems(), *peer.neighbours.problems())
        ]
