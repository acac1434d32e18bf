"""A model of a domain: a head and edges that are its leaf nodes, with channels that keep their order.

Interest travels on the same channels as messages, as in nats-server. What happens next is drawn from a seed;
every channel has a speed of its own.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

HEAD = "head"


@dataclass(frozen=True)
class Sent:
    """A message: `name` tells it from all others, `payload` is what subscribers see."""

    name: str
    payload: str
    identity: str | None = None
    subject: str = "topic"


Item = tuple[str, object]


@dataclass
class Node:
    """A broker."""

    name: str
    subscribers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Connections of clients, by subject."""
    wanted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Neighbours that want a subject."""
    told: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What each neighbour was told that is wanted here."""


class Star:
    """Head and edges, and the connections of clients to them."""

    def __init__(self, edges: list[str], seed: int) -> None:
        self.random = random.Random(seed)
        self.nodes = {name: Node(name) for name in (HEAD, *edges)}
        self.edges = edges
        self.channels: dict[tuple[str, str], deque[Item]] = {}
        self.speed: dict[tuple[str, str], float] = {}
        self.dead: set[str] = set()
        self.receive: Callable[[str, Item], None] = lambda connection, item: None
        for edge in edges:
            self._open(HEAD, edge)
            self._open(edge, HEAD)

    def connect(self, connection: str, broker: str) -> None:
        """A client's connection."""
        self._open(connection, broker)
        self._open(broker, connection)

    def _open(self, source: str, target: str) -> None:
        self.channels[source, target] = deque()
        self.speed[source, target] = self.random.choice((0.05, 0.3, 1.0, 1.0, 3.0))

    def send(self, source: str, target: str, item: Item) -> None:
        if source not in self.dead and target not in self.dead:
            self.channels[source, target].append(item)

    def kill(self, broker: str) -> None:
        """A broker dies: what is on its way to or from it is gone, but for the buffers of its clients."""
        self.dead.add(broker)
        for (source, target), items in self.channels.items():
            if broker == target or (broker == source and target in self.nodes):
                items.clear()
        if broker != HEAD:
            for subject in list(self.nodes[HEAD].wanted):
                self.nodes[HEAD].wanted[subject].discard(broker)
                self._tell_neighbours(self.nodes[HEAD], subject)

    def ready(self) -> list[tuple[str, str]]:
        """Channels that have something to hand over."""
        return [ends for ends, items in self.channels.items() if items]

    def step(self, ends: tuple[str, str]) -> None:
        """Hand over the first item of a channel."""
        source, target = ends
        item = self.channels[ends].popleft()
        if target not in self.nodes:
            self.receive(target, item)
            return
        kind, value = item
        node = self.nodes[target]
        subject = value if isinstance(value, str) else ""
        if kind == "subscribe":
            node.subscribers[subject].append(source)
            self._tell_neighbours(node, subject)
        elif kind == "unsubscribe":
            node.subscribers[subject].remove(source)
            self._tell_neighbours(node, subject)
        elif kind == "wanted":
            node.wanted[subject].add(source)
            self._tell_neighbours(node, subject)
        elif kind == "unwanted":
            node.wanted[subject].discard(source)
            self._tell_neighbours(node, subject)
        elif kind == "ping":
            self.send(target, source, ("pong", value))
        elif isinstance(value, Sent):
            self.publish(target, value, source)

    def publish(self, broker: str, sent: Sent, source: str = "") -> None:
        """A broker handles a message: all copies are queued at once."""
        node = self.nodes[broker]
        for connection in node.subscribers[sent.subject]:
            self.send(broker, connection, ("message", sent))
        for neighbour in sorted(node.wanted[sent.subject] - {source}):
            self.send(broker, neighbour, ("message", sent))

    def _tell_neighbours(self, node: Node, subject: str) -> None:
        neighbours = self.edges if node.name == HEAD else [HEAD]
        for neighbour in neighbours:
            here = bool(node.subscribers[subject]) or bool(node.wanted[subject] - {neighbour})
            if here and neighbour not in node.told[subject]:
                node.told[subject].add(neighbour)
                self.send(node.name, neighbour, ("wanted", subject))
            elif not here and neighbour in node.told[subject]:
                node.told[subject].discard(neighbour)
                self.send(node.name, neighbour, ("unwanted", subject))
