"""Changes of contracts, domains and links in the midst of a failure schedule, and what must hold of them.

Operators at random domains ask for other contracts, also at the same time and on both sides of a partition,
and gateways that take part die. Never is one version in force in two texts, never does a class mean two
things, and every frame that comes to a gateway names a class that it knows. In the end all have the same
version. Contracts of the schedule's streams stay, but for that of the stream which has none: it gets some,
and loses them.
"""

from __future__ import annotations

import random
from functools import partial

from mangrove.errors import InputError
from mangrove.model.topics import Contract
from mangrove.model.versions.changes import ChangeState
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.network import RETIRED
from mangrove.model.versions.succession import successor
from mangrove.overlay.protocol.frames import Frame, FrameType
from mangrove.simulation.overlay_network import SimulatedOverlay
from mangrove.simulation.schedules.network_changes import NetworkChanges
from mangrove.simulation.schedules.schedule import PLAIN, RULES

MAX_CHANGES = 6
OPEN_S = 60.0
"""So long it may take until a change is completed whose proposer has died."""
UNDER_WAY = (ChangeState.PREPARING, ChangeState.DECIDING)


class Changes:
    """Plans the changes of one schedule, and watches what comes of them."""

    def __init__(self, net: SimulatedOverlay, seed: int, seconds: float) -> None:
        self._net = net
        self._chance = random.Random(f"changes of {seed}")
        self._texts: dict[int, set[str]] = {}
        self._meanings: dict[int, Contract] = {}
        self._numbers: dict[int, str] = {}
        self._outcomes: dict[str, ChangeState] = {}
        self.asked = 0
        self.problems: list[str] = []
        net.watch = self._arrived
        self.network = NetworkChanges(net, self._chance)
        for _ in range(self._chance.randint(1, MAX_CHANGES)):
            at = net.now + self._chance.uniform(0.0, seconds)
            for _ in range(self._chance.choice((1, 1, 2))):
                net.at(at, partial(self._ask, self._chance.random()))

    def _ask(self, drawn: float) -> None:
        """Somebody asks a gateway that lives for other contracts."""
        names = sorted(self._net.engines)
        name = names[int(drawn * len(names))]
        engine = self._net.engines[name]
        network = self.network.drawn(engine) if self._chance.random() < 0.6 else None
        contracts = engine.document.topics.contracts
        if network is None or self._chance.random() < 0.3:
            contracts = tuple(self._contracts())
        after = successor(engine.document, contracts, by=name, at=f"{self._net.now:.3f}", network=network)
        if name not in self._net.engines:
            return  # it was drawn to be expelled
        try:
            self._net.propose(name, WrittenDocument(text=after.text()))
        except InputError:
            return  # another change is under way there
        self.asked += 1

    def restore(self) -> None:
        """When everything has healed, all members live, and the links are there that streams need.

        What was asked for before is waited for: it may take such links away.
        """
        limit = self._net.now + OPEN_S
        while (self.network.restore() or self._open()) and self._net.now < limit:
            self._net.run(self._net.now + 0.5)

    def _contracts(self) -> list[Contract]:
        others = [
            Contract(
                match=match, paths=self._chance.choice((1, 2)), rate_msg_s=self._chance.choice((None, 1e9))
            )
            for match in (f"{PLAIN}.>", f"{PLAIN}.1", "nobody.>")
            if self._chance.random() < 0.5
        ]
        kept = list(RULES.contracts)
        return [*others, *kept] if self._chance.random() < 0.5 else [*kept, *others]

    def _arrived(self, receiver: str, frame: Frame) -> None:
        """A frame comes: its class is known there, and means what it means everywhere."""
        if frame.type not in (FrameType.DATA, FrameType.JOBS):
            return
        rules = self._net.engines[receiver].rules
        if frame.topic_class != rules.unmatched and not rules.knows(frame.topic_class):
            self.problems.append(
                f"{receiver} gets a frame of class {frame.topic_class}, which it does not know"
            )
        self.look()

    def look(self) -> None:
        """Compare what is in force everywhere with all that ever was."""
        for engine in self._net.engines.values():
            document, digest = engine.document, engine.version_digest
            texts = self._texts.setdefault(document.version, set())
            if digest not in texts:
                texts.add(digest)
                for number, name in enumerate(document.domains):
                    known = self._numbers.setdefault(number, name.partition(RETIRED)[0])
                    if known != name.partition(RETIRED)[0]:
                        self.problems.append(f"number {number} means {known} and {name}")
                if len(texts) > 1:
                    self.problems.append(f"version {document.version} is in force in two texts")
                for topic_class, contract in document.topics.known().items():
                    if self._meanings.setdefault(topic_class, contract) != contract:
                        self.problems.append(f"class {topic_class} means two things")

    def _open(self) -> list[str]:
        """Members where something was asked for, or accepted, of which it is open what becomes of it."""
        found = []
        for name in self.network.members():
            engine = self._net.engines[name]
            asked = any(change.state in UNDER_WAY for change in engine.changes())
            if asked or engine.kept_versions().accepted.round:
                found.append(name)
        return found

    def check(self) -> list[str]:
        """What is wrong when all is at rest, and who takes up what was left open has had the time for it."""
        self.problems += self.network.check()
        self.look()
        versions = {name: self._net.engines[name].document.version for name in self.network.members()}
        if len(set(versions.values())) > 1:
            self.problems.append(f"domains end with different versions: {versions}")
        if self._open():
            self.problems.append(f"a change is still open at {', '.join(self._open())}")
        in_force = {digest for texts in self._texts.values() for digest in texts}
        in_force |= {past.digest for each in self._net.engines.values() for past in each.document.past}
        for name, engine in self._net.engines.items():
            for change in engine.changes():
                if change.state is ChangeState.IN_FORCE and change.digest not in in_force:
                    self.problems.append(f"{name} was told that a change is in force which never was")
                if change.state is ChangeState.REFUSED and change.digest in in_force:
                    self.problems.append(f"{name} was told that a change is refused which was in force")
        return self.problems
