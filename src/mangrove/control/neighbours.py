"""The agents of linked domains: registered, on- or offline, how loaded they are and whether they take load.

As in ePEER §4.3.1, an agent that starts registers with every neighbour and waits a limited time for the
confirmation. Beyond it (erratum A4), both say every few seconds that they are there; a neighbour that is not
heard of is offline, and tried again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import msgspec

from mangrove.control.instructions import Instruction, TellPeer
from mangrove.model.agents.load import ClusterLoad
from mangrove.model.agents.peers import LoadTold, PeerRegister, PeerRegistered
from mangrove.model.agents.status import PeerStatus
from mangrove.model.federation import Federation

CONFIRM_S = 2.0
"""A neighbour that has not confirmed a registration within this time is offline."""
KEEP_ALIVE_S = 3.0
SILENT_S = 10.0
"""A neighbour that is not heard of for so long is offline: three messages missed."""
LOAD_S = 3.0
"""A load that does not change is told so often, and one that changes only in figures."""
STALE_LOAD_S = 10.0
"""A load that was told longer ago says nothing any more."""

NOT_A_NEIGHBOUR = "from a domain that is not linked"
OLD_AGENT = "from an agent that has been replaced"
NOT_REGISTERED = "from an agent that has not registered"
IMPOSSIBLE_LOAD = "impossible load"


class NeighbourCame(msgspec.Struct, frozen=True):
    """A neighbour is online; one that `restarted` knows nothing of what it was told before."""

    peer: str
    restarted: bool


class NeighbourWent(msgspec.Struct, frozen=True):
    """A neighbour is offline."""

    peer: str


class _Neighbour:
    __slots__ = ("accepts", "epoch", "heard_at", "load", "load_at", "online", "said_at")

    def __init__(self) -> None:
        self.online = False
        self.epoch: int | None = None
        self.accepts = False
        self.heard_at = -math.inf
        self.said_at = -math.inf
        self.load: ClusterLoad | None = None
        self.load_at = -math.inf


class Neighbours:
    """Registration with linked domains, and what they tell of themselves."""

    def __init__(self, federation: Federation, domain: str, epoch: int) -> None:
        """`epoch` is the start of this agent's leadership, and larger than those of earlier ones."""
        self._epoch = epoch
        self._accept_from = frozenset(federation.domains[domain].accept_load_from)
        self._peers = {link.other(domain): _Neighbour() for link in federation.links_of(domain)}
        self._changes: list[NeighbourCame | NeighbourWent] = []
        self._load: ClusterLoad | None = None
        self._load_told_at = -math.inf
        self.refused: Counter[str] = Counter()
        """Messages that were not believed, by reason."""

    def start(self, now: float) -> list[Instruction]:
        """Register with every neighbour."""
        return [self._register(peer, now) for peer in self._peers]

    def handle(
        self, peer: str, message: PeerRegister | PeerRegistered | LoadTold, now: float
    ) -> list[Instruction]:
        """A neighbour has said something; `take_changes` tells whether it came or went by that."""
        neighbour = self._peers.get(peer)
        if neighbour is None:
            self.refused[NOT_A_NEIGHBOUR] += 1
            return []
        match message:
            case PeerRegister(epoch=epoch, accepts=accepts):
                if self._heard(peer, epoch, accepts, now):
                    return [*self._confirm(peer, now), *self._tell_load([peer])]
            case PeerRegistered(epoch=epoch, accepts=accepts):
                was_online = neighbour.online
                if self._heard(peer, epoch, accepts, now) and not was_online:
                    return self._tell_load([peer])
            case LoadTold(load=load):
                if not neighbour.online:
                    self.refused[NOT_REGISTERED] += 1
                elif not _possible(load):
                    self.refused[IMPOSSIBLE_LOAD] += 1
                else:
                    neighbour.load, neighbour.load_at = load, now
        return []

    def _heard(self, peer: str, epoch: int, accepts: bool, now: float) -> bool:
        """Note that a neighbour is there; False for one whose place another agent has taken.

        An agent that is silent has lost its place: after a clock was set back, epochs may begin lower.
        """
        neighbour = self._peers[peer]
        if neighbour.online and neighbour.epoch is not None and epoch < neighbour.epoch:
            self.refused[OLD_AGENT] += 1
            return False
        restarted = epoch != neighbour.epoch
        if restarted:
            neighbour.load = None
        if restarted or not neighbour.online:
            self._changes.append(NeighbourCame(peer, restarted))
        neighbour.online = True
        neighbour.epoch = epoch
        neighbour.accepts = accepts
        neighbour.heard_at = now
        return True

    def _register(self, peer: str, now: float) -> TellPeer:
        self._peers[peer].said_at = now
        return TellPeer(peer, PeerRegister(epoch=self._epoch, accepts=peer in self._accept_from))

    def _confirm(self, peer: str, now: float) -> list[Instruction]:
        self._peers[peer].said_at = now
        return [TellPeer(peer, PeerRegistered(epoch=self._epoch, accepts=peer in self._accept_from))]

    def set_load(self, load: ClusterLoad, now: float) -> list[Instruction]:
        """This domain's load is so: neighbours are told at once when a state changes, else now and then."""
        before = self._load
        self._load = load
        changed = before is None or (before.head, before.edges) != (load.head, load.edges)
        if not changed and now < self._load_told_at + LOAD_S:
            return []
        self._load_told_at = now
        return self._tell_load(self.online())

    def _tell_load(self, peers: Iterable[str]) -> list[Instruction]:
        if self._load is None:
            return []
        return [TellPeer(peer, LoadTold(load=self._load)) for peer in peers]

    def handle_timer(self, now: float) -> list[Instruction]:
        """Say to all that this agent is there; give up those that are silent, and try them again."""
        told: list[Instruction] = []
        for peer, neighbour in self._peers.items():
            if neighbour.online and now >= neighbour.heard_at + SILENT_S:
                neighbour.online = False
                self._changes.append(NeighbourWent(peer))
            if now >= self._due(neighbour):
                if neighbour.online:
                    told += self._confirm(peer, now)
                else:
                    told.append(self._register(peer, now))
        return told

    def _due(self, neighbour: _Neighbour) -> float:
        return neighbour.said_at + (KEEP_ALIVE_S if neighbour.online else CONFIRM_S)

    def timer(self) -> float:
        """When to be called again."""
        due = [self._due(neighbour) for neighbour in self._peers.values()]
        due += [neighbour.heard_at + SILENT_S for neighbour in self._peers.values() if neighbour.online]
        return min(due, default=math.inf)

    def take_changes(self) -> list[NeighbourCame | NeighbourWent]:
        """Who came and went since the last time, in order."""
        changes, self._changes = self._changes, []
        return changes

    def online(self) -> tuple[str, ...]:
        """The neighbours whose agents are there."""
        return tuple(peer for peer, neighbour in self._peers.items() if neighbour.online)

    def load_of(self, peer: str, now: float) -> ClusterLoad | None:
        """How loaded a neighbour is, if it told lately."""
        neighbour = self._peers.get(peer)
        if neighbour is None or not neighbour.online or now >= neighbour.load_at + STALE_LOAD_S:
            return None
        return neighbour.load

    def accepts(self, peer: str) -> bool:
        """Whether a neighbour is there and takes load from this domain."""
        neighbour = self._peers.get(peer)
        return neighbour is not None and neighbour.online and neighbour.accepts

    def status(self, now: float) -> tuple[PeerStatus, ...]:
        """All neighbours, for people."""
        return tuple(
            PeerStatus(
                domain=peer,
                online=neighbour.online,
                load=neighbour.load,
                load_age_s=None if neighbour.load is None else now - neighbour.load_at,
                accepts=neighbour.accepts,
            )
            for peer, neighbour in sorted(self._peers.items())
        )

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        return [
            f"{peer} is online without having registered"
            for peer, neighbour in self._peers.items()
            if neighbour.online and neighbour.epoch is None
        ]


def _possible(load: ClusterLoad) -> bool:
    """Whether a load can be: figures that are numbers, and a headroom that is a share."""
    figures = [*load.head_remaining.values(), *load.edges_remaining.values(), *load.largest_edge.values()]
    headroom = 0.0 if load.headroom is None else load.headroom
    return all(map(math.isfinite, figures)) and math.isfinite(headroom) and headroom <= 1.0
