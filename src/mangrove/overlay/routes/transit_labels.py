"""Labels of routes that lead through this gateway: they stand when the next hop says so, for a limited time.

A set-up goes on to the next hop; the next hop takes effect here only when its acknowledgement has come
(Harmony §3.2), so what stands here stands all the way to the destination. A route that moves keeps its label
and gets a higher version: every gateway finds for itself what is new and what is obsolete. Where the rest of
the way stays as it was, nobody downstream has to be waited for; where the next hop changes, the old one
serves until the new one has acknowledged, and is then told that it is no longer needed.

Why no frame runs in a circle while a route moves: gateways change from the destination towards the source, so
the next hop of a gateway at some version is at that version or a later one, and along each version the way to
the destination only gets shorter. That a version never comes back is remembered for a lease after it expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from mangrove.model.federation import Federation
from mangrove.model.site_pair import site_pair
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.links.neighbours import Neighbours
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.protocol.control_messages import RouteAck, RouteMessage, RouteSetup, RouteTeardown

MAX_LABELS = 1 << 16
LEASE_S = 35.0
"""How long a label lasts that is not refreshed: more than three times the period of refreshing."""
LINGER_S = 2.0
"""How long a label lasts that is no longer needed: frames that were under way still find their next hop."""
SWEEP_S = 1.0

MIN_LABELS_OF_ONE = 1024
"""Where domains have keys, one of them can have so many of the labels, or its share, but not all."""
OTHER_LIFE = "of another life of its origin"

LabelKey = tuple[str, int, int]
"""Origin, epoch and label."""


class _Hop(msgspec.Struct):
    """One version of a route, as it leads through this gateway."""

    version: int
    path: tuple[str, ...]
    position: int

    @property
    def following(self) -> str:
        return self.path[self.position + 1]

    @property
    def rest(self) -> tuple[str, ...]:
        return self.path[self.position :]


class _Label(msgspec.Struct):
    """What stands, what was asked for and is not acknowledged yet, and until when."""

    expires_at: float
    newest: int
    """No version below this one is heard any more."""
    standing: _Hop | None = None
    asked: _Hop | None = None


class _Bearers(msgspec.Struct):
    """The neighbours from which a label's set-ups have come."""

    expires_at: float
    peers: set[str] = msgspec.field(default_factory=set)


class TransitLabels:
    """The next hop of every route that others have established through this gateway. Bounded."""

    def __init__(
        self,
        domain: str,
        federation: Federation,
        neighbours: Neighbours,
        link_state: LinkStateDatabase,
        *,
        secured: bool = False,
        rules: Rules | None = None,
    ) -> None:
        """If `secured`, set-ups are known to be their origins' own, and who brought them is remembered."""
        self._domain = domain
        self._links = {link.pair for link in federation.links}
        self._rules: Rules = rules or federation.topics
        self._neighbours = neighbours
        self._link_state = link_state
        self._labels: dict[LabelKey, _Label] = {}
        self._by_life: dict[str, dict[int, set[LabelKey]]] = {}
        """The same, by origin and its life."""
        self._secured = secured
        self._most_of_one = max(MAX_LABELS // max(1, len(federation.domains)), MIN_LABELS_OF_ONE)
        self._bearers: dict[LabelKey, _Bearers] = {}
        self._sweep_at = float("inf")
        self.ignored: Counter[str] = Counter()
        """Route messages that were not acted upon, by what was wrong with them."""

    def adopt(self, federation: Federation) -> None:
        """Other domains and links are agreed on; labels that lead over a link that is gone run out."""
        self._links = {link.pair for link in federation.links}
        self._most_of_one = max(MAX_LABELS // max(1, len(federation.domains)), MIN_LABELS_OF_ONE)

    def __len__(self) -> int:
        return sum(label.standing is not None for label in self._labels.values())

    def next_hop(self, origin: str, epoch: int, label: int) -> str | None:
        """Where frames with this label go; None if no such route stands here."""
        known = self._labels.get((origin, epoch, label))
        return None if known is None or known.standing is None else known.standing.following

    def routes(self) -> Iterator[tuple[str, int, int, int, tuple[str, ...]]]:
        """Origin, epoch, label, version and path of all routes that lead through here."""
        for key, label in self._labels.items():
            for hop in (label.standing, label.asked):
                if hop is not None:
                    yield (*key, hop.version, hop.path)

    def receive(self, message: RouteMessage, peer: str, now: float) -> list[tuple[str, RouteMessage]]:
        """What follows from a route message of a neighbour, about a route of another gateway."""
        wrong = self.wrong(message, peer)
        if wrong:
            self.ignored[f"route message {wrong}"] += 1
            return []
        key = (message.origin, message.epoch, message.label)
        match message:
            case RouteSetup():
                return self._set_up(key, message, peer, now)
            case RouteAck():
                return self._acknowledge(key, message)
            case RouteTeardown():
                return self._tear_down(key, message, now)

    def wrong(self, message: RouteMessage, peer: str) -> str:
        """What shows that a message was not made by its origin, or is not for this gateway now."""
        path = message.path
        if self._domain not in path[1:] or path[0] != message.origin or len(set(path)) != len(path):
            return "whose path does not lead from its origin through this gateway"
        if any(site_pair(*pair) not in self._links for pair in pairwise(path)):
            return "over a link that does not exist"
        position = path.index(self._domain)
        sender = path[position + 1 : position + 2] if isinstance(message, RouteAck) else [path[position - 1]]
        if sender != [peer]:
            return "from a neighbour that is not next to this gateway on the path"
        if isinstance(message, RouteSetup) and message.topic_class not in self._rules.known():
            return "for a contract that does not exist"
        if self._link_state.epoch_of(message.origin) not in (None, message.epoch):
            return OTHER_LIFE
        return ""

    def _set_up(
        self, key: LabelKey, setup: RouteSetup, peer: str, now: float
    ) -> list[tuple[str, RouteMessage]]:
        hop = _Hop(setup.version, tuple(setup.path), setup.path.index(self._domain))
        if self._secured:
            self._remember_bearer(key, peer, now)
        if len(hop.rest) == 1:
            return [(peer, _answer(setup))]
        known = self._labels.get(key)
        if known is not None and setup.version < known.newest:
            self.ignored["route message that a newer one has overtaken"] += 1
            return []
        present = [each for each in (known.standing, known.asked) if each is not None] if known else []
        same = next((each for each in present if each.version == setup.version), None)
        if same is not None and same.path != hop.path:
            self.ignored["route message that contradicts an earlier one"] += 1
            return []
        if not self._neighbours.usable(hop.following):
            return [(peer, _answer(setup, f"the link from {self._domain} to {hop.following} is down"))]
        if known is None:
            if self._full(key[0]):
                return [(peer, _answer(setup, f"too many routes lead through {self._domain}"))]
            self._forget_earlier_lives(key)
            known = self._labels[key] = _Label(now + LEASE_S, setup.version)
            self._by_life.setdefault(key[0], {}).setdefault(key[1], set()).add(key)
            self._sweep_at = min(self._sweep_at, now + SWEEP_S)
        known.expires_at = now + LEASE_S
        known.newest = setup.version
        onward: list[tuple[str, RouteMessage]] = [(hop.following, setup)]
        if same is None and known.standing is not None and known.standing.rest == hop.rest:
            known.standing, known.asked = hop, None
            return [*onward, (peer, _answer(setup))]
        if same is None:
            known.asked = hop
        return onward

    def _full(self, origin: str) -> bool:
        """Whether there is no room for another route: none at all, or none for one more of this origin."""
        if not self._secured or len(self._labels) < self._most_of_one:
            return len(self._labels) >= MAX_LABELS
        return sum(map(len, self._by_life.get(origin, {}).values())) >= self._most_of_one

    def _remember_bearer(self, key: LabelKey, peer: str, now: float) -> None:
        bearers = self._bearers.get(key)
        if bearers is None:
            if len(self._bearers) >= MAX_LABELS:
                return
            bearers = self._bearers[key] = _Bearers(0.0)
            self._sweep_at = min(self._sweep_at, now + SWEEP_S)
        bearers.peers.add(peer)
        bearers.expires_at = now + 2 * LEASE_S

    def borne_by(self, origin: str, epoch: int, label: int, peer: str) -> bool:
        """Whether frames under a label may come from a neighbour: its origin's set-up has come from there.

        A label that is not known here says nothing.
        """
        bearers = self._bearers.get((origin, epoch, label))
        return bearers is None or peer in bearers.peers

    def _forget_earlier_lives(self, key: LabelKey) -> None:
        """Routes of a gateway that has started again since."""
        lives = self._by_life.get(key[0], {})
        for epoch in [epoch for epoch in lives if epoch < key[1]]:
            for old in lives.pop(epoch):
                del self._labels[old]

    def _acknowledge(self, key: LabelKey, ack: RouteAck) -> list[tuple[str, RouteMessage]]:
        known = self._labels.get(key)
        present = [] if known is None else [known.standing, known.asked]
        hop = next((each for each in present if each is not None and each.version == ack.version), None)
        if known is None or hop is None or list(hop.path) != ack.path:
            self.ignored["route message that answers nothing which was asked"] += 1
            return []
        messages: list[tuple[str, RouteMessage]] = [(hop.path[hop.position - 1], ack)]
        if not ack.ok:
            known.asked = None if hop is known.asked else known.asked
            known.standing = None if hop is known.standing else known.standing
        elif hop is known.asked:
            before, known.standing, known.asked = known.standing, hop, None
            if before is not None and before.following != hop.following:
                obsolete = RouteTeardown(
                    origin=key[0], epoch=key[1], label=key[2], path=list(before.path), version=before.version
                )
                messages.append((before.following, obsolete))
        return messages

    def _tear_down(self, key: LabelKey, message: RouteTeardown, now: float) -> list[tuple[str, RouteMessage]]:
        """Frames that are under way still pass for a moment."""
        known = self._labels.get(key)
        if known is None or known.newest > message.version:
            return []
        if self._secured and not self._stands(known, message):
            self.ignored["route message that tears down what does not stand"] += 1
            return []
        known.expires_at = min(known.expires_at, now + LINGER_S)
        self._sweep_at = min(self._sweep_at, known.expires_at)
        position = message.path.index(self._domain)
        return [(hop, message) for hop in message.path[position + 1 : position + 2]]

    def _stands(self, known: _Label, message: RouteTeardown) -> bool:
        """Whether the very route is there that is torn down.

        A tear-down is not signed. It comes from the neighbour before this one on the path that the origin has
        signed, and that one could as well send nothing more.
        """
        present = [each for each in (known.standing, known.asked) if each is not None]
        return any((each.version, list(each.path)) == (message.version, message.path) for each in present)

    # -- time ---------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When `expire` has something to do."""
        return self._sweep_at

    def expire(self, now: float) -> None:
        """Labels that were not refreshed no longer stand, and some time later they are forgotten."""
        if now < self._sweep_at:
            return
        for key, label in list(self._labels.items()):
            if now < label.expires_at:
                continue
            if label.standing is None and label.asked is None:
                del self._labels[key]
                self._by_life[key[0]][key[1]].discard(key)
            else:
                label.standing = label.asked = None
                label.expires_at = now + LEASE_S
        self._by_life = {
            origin: there
            for origin, lives in self._by_life.items()
            if (there := {epoch: keys for epoch, keys in lives.items() if keys})
        }
        for key in [key for key, bearers in self._bearers.items() if now >= bearers.expires_at]:
            del self._bearers[key]
        self._sweep_at = now + SWEEP_S if self._labels or self._bearers else float("inf")

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = [] if len(self._labels) <= MAX_LABELS else ["more labels are kept than may be"]
        by_life = {key for lives in self._by_life.values() for keys in lives.values() for key in keys}
        if by_life != self._labels.keys():
            found.append("labels are not kept by the lives of their origins")
        if (self._labels or self._bearers) and self._sweep_at == float("inf"):
            found.append("labels are kept that never expire")
        for key, label in self._labels.items():
            versions = [hop.version for hop in (label.standing, label.asked) if hop is not None]
            if versions != sorted(set(versions)) or any(version > label.newest for version in versions):
                found.append(f"the versions {versions} of label {key} are out of order")
        return found


def _answer(setup: RouteSetup, problem: str = "") -> RouteAck:
    return RouteAck(
        origin=setup.origin,
        epoch=setup.epoch,
        label=setup.label,
        version=setup.version,
        path=setup.path,
        ok=not problem,
        reason=problem,
    )
