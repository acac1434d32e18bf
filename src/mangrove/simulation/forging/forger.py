"""A compromised gateway: it has its domain's keys, has kept what it heard, and lies to its neighbours.

Its engine goes on as before, so that it is a neighbour like any other. Beside it, the forger says in others'
names what it has made up, and again what they said once; where it tampers, it also alters what its engine
passes on. Everything is drawn from one seed.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

import msgspec

from mangrove.overlay.protocol.control_messages import (
    ControlBody,
    DangerNotice,
    Digest,
    InterestUpdate,
    LinkReport,
    LinkStateAd,
    RouteAck,
    RouteSetup,
    RouteTeardown,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType
from mangrove.overlay.protocol.signed import InterestStatement, Signed
from mangrove.overlay.protocol.signed_bodies import (
    Signable,
    changed_wants,
    signed_frame,
    signed_message,
    words,
)
from mangrove.overlay.trust.frame_tags import content, tags_for
from mangrove.overlay.trust.table_hash import TableHash, digest_of
from mangrove.overlay.trust.trust import KeyTrust
from mangrove.simulation.overlay_network import SimulatedOverlay

KEPT = 400
"""Frames of others that are kept to be said again: the first ones and the last ones."""
LURE = "forged.lure"
"""A subject that nobody wants, except in forged interest."""
FALSE_BODY = b"forged message"
_CONTROL = (FrameType.LINK_STATE, FrameType.ROUTE, FrameType.INTEREST)


class LyingGateway:
    """The forger at one gateway of a simulated network."""

    def __init__(self, net: SimulatedOverlay, domain: str, seed: int, *, tampers: bool = False) -> None:
        trust = net.trust_of(domain)
        assert trust is not None, "only where gateways have keys is there anything to forge"
        self._net = net
        self.domain = domain
        self._random = random.Random(seed)
        self._trust: KeyTrust = trust
        self._others = [name for name in net.federation.domains if name != domain]
        self._peers = [link.other(domain) for link in net.federation.links_of(domain)]
        self._ads: dict[str, LinkStateAd] = {}
        self._interest: dict[str, InterestUpdate] = {}
        """The newest that was heard of each domain: who hits the next number is believed most easily."""
        self._first: list[Frame] = []
        self._last: deque[Frame] = deque(maxlen=KEPT)
        self.tampers = self.tampered = tampers
        self.lies: Counter[str] = Counter()
        net.forgers[domain] = self

    def lie(self, until: float, interval_s: float) -> None:
        """Tell lies for as long, at intervals of about so much."""
        pause_s = self._random.uniform(0.2, 1.8) * interval_s
        if self._net.now + pause_s < until:
            self._net.at(self._net.now + pause_s, partial(self._next, until, interval_s))

    def _next(self, until: float, interval_s: float) -> None:
        if self.domain in self._net.engines:
            self.tell_one()
        self.lie(until, interval_s)

    def tell_one(self) -> None:
        """One lie to one neighbour."""
        peer = self._random.choice(self._peers)
        name, make = self._random.choice(_LIES + (_LIES_IN_DATA if self.tampers else []))
        frame = make(self, peer)
        if frame is not None:
            self.lies[name] += 1
            self._net.put(self.domain, peer, frame)

    def stop_tampering(self) -> None:
        """Pass on what others say as they said it, and lie on."""
        self.tampers = False

    # -- what passes --------------------------------------------------------------------------------------

    def heard(self, frame: Frame) -> None:
        """Keep what may be said again."""
        if frame.type not in _CONTROL:
            return
        if len(self._first) < KEPT:
            self._first.append(frame)
        self._last.append(frame)
        body = control_body(frame)
        if isinstance(body, Signed) and frame.type is FrameType.LINK_STATE:
            message = signed_message(frame.type, body)
            if isinstance(message, LinkStateAd):
                self._ads[message.origin] = message
        elif isinstance(body, InterestUpdate) and body.statement is not None:
            self._interest[body.origin] = body

    def passed(self, peer: str, frame: Frame) -> list[Frame]:
        """What the engine sends; one that tampers alters the words of others now and then."""
        if not self.tampers or frame.type not in _CONTROL or self._random.random() < 0.7:
            return [frame]
        altered = self._altered(control_body(frame))
        if altered is None:
            return [frame]
        self.lies["altered"] += 1
        return [altered]

    def _altered(self, body: ControlBody) -> Frame | None:
        match body:
            case Signed():
                said = bytearray(body.said)
                place = self._random.randrange(len(said))
                said[place] ^= 1 << self._random.randrange(8)
                changed = msgspec.structs.replace(body, said=bytes(said))
                for frame_type in (FrameType.LINK_STATE, FrameType.ROUTE):
                    try:
                        signed_message(frame_type, changed)
                    except FrameError:
                        continue
                    return signed_frame(frame_type, changed)
                return None
            case InterestUpdate() if body.origin != self.domain:
                return control_frame(msgspec.structs.replace(body, added=[*body.added, LURE]))
            case _:
                return None

    # -- lies ---------------------------------------------------------------------------------------------

    def _victim(self) -> str:
        return self._random.choice(self._others)

    def _as(self, victim: str, signed: Signed) -> Signed:
        """Something that this gateway has signed, under its own credential or that of its victim."""
        own = self._random.random() < 0.5
        return signed if own else msgspec.structs.replace(signed, credential=victim.encode())

    def _sign(self, message: Signable) -> Signed:
        return self._trust.signed(words(message))

    def _false_ad(self, peer: str) -> Frame | None:
        victim = self._victim()
        known = self._ads.get(victim)
        if known is None:
            return None
        up = self._random.random() < 0.3
        links = {other: LinkReport(up=up, delay_ms=1.0) for other in known.links}
        later = self._random.choice((0, 1, 10**9))
        ad = LinkStateAd(
            origin=victim, epoch=known.epoch + later, sequence=known.sequence + 1_000, links=links
        )
        if self._random.random() < 0.2:
            return control_frame(ad)
        return signed_frame(FrameType.LINK_STATE, self._as(victim, self._sign(ad)))

    def _impossible_ad(self, peer: str) -> Frame:
        """Of links that are not its own, well signed."""
        links = {other: LinkReport(up=False, delay_ms=1.0) for other in self._others}
        strangers = {"nowhere": LinkReport(up=False, delay_ms=1.0)}
        ad = LinkStateAd(
            origin=self.domain,
            epoch=1 << 62,
            sequence=self._random.randrange(1 << 40),
            links=links | strangers,
        )
        return signed_frame(FrameType.LINK_STATE, self._sign(ad))

    def _false_interest(self, peer: str) -> Frame | None:
        """A change in another's name: unsigned, signed by this gateway, or under the other's signature."""
        victim = self._victim()
        known = self._interest.get(victim)
        if known is None:
            return None
        update = InterestUpdate(
            origin=victim, epoch=known.epoch, version=known.version + 1, snapshot=False, added=[LURE]
        )
        way = self._random.randrange(3)
        if way == 1:
            statement = InterestStatement(
                origin=victim,
                epoch=update.epoch,
                version=update.version,
                change=digest_of(changed_wants(update)),
                table=TableHash((*known.added, LURE)).root(),
            )
            update = msgspec.structs.replace(update, statement=self._as(victim, self._sign(statement)))
        elif way == 2:
            update = msgspec.structs.replace(update, version=known.version, statement=known.statement)
        return control_frame(update)

    def _false_snapshot(self, peer: str) -> Frame | None:
        """A whole table in another's name, under the statement that belongs to the true one."""
        victim = self._victim()
        known = self._interest.get(victim)
        if known is None:
            return None
        wants = self._random.choice(([], [LURE], [*known.added, LURE], known.added[1:]))
        later = self._random.choice((0, 1))
        return control_frame(
            InterestUpdate(
                origin=victim,
                epoch=known.epoch,
                version=known.version + later,
                snapshot=True,
                added=wants,
                statement=known.statement,
            )
        )

    def _again(self, peer: str) -> Frame | None:
        """What somebody said once."""
        kept = self._first if self._random.random() < 0.5 else list(self._last)
        return self._random.choice(kept) if kept else None

    def _false_setup(self, peer: str) -> Frame | None:
        victim = self._victim()
        known = self._ads.get(victim)
        if known is None:
            return None
        setup = RouteSetup(
            origin=victim,
            epoch=known.epoch,
            label=self._random.randrange(1, 5),
            path=[victim, self.domain, peer],
            version=10**6,
            topic_class=0,
        )
        if victim == peer or self.domain not in {
            link.other(victim) for link in self._net.federation.links_of(victim)
        }:
            return None
        return signed_frame(FrameType.ROUTE, self._as(victim, self._sign(setup)))

    def _kept_setup(self) -> RouteSetup | None:
        for frame in reversed(self._last):
            if frame.type is FrameType.ROUTE:
                body = control_body(frame)
                if isinstance(body, Signed):
                    setup = signed_message(FrameType.ROUTE, body)
                    assert isinstance(setup, RouteSetup)
                    return setup
        return None

    def _false_ack(self, peer: str) -> Frame | None:
        setup = self._kept_setup()
        if setup is None or peer == setup.path[setup.path.index(self.domain) - 1]:
            return None
        return control_frame(
            RouteAck(
                origin=setup.origin,
                epoch=setup.epoch,
                label=setup.label,
                path=setup.path,
                version=setup.version,
                ok=False,
                reason="a lie",
            )
        )

    def _false_teardown(self, peer: str) -> Frame | None:
        setup = self._kept_setup()
        if setup is None:
            return None
        follows = peer in setup.path[setup.path.index(self.domain) :]
        return control_frame(
            RouteTeardown(
                origin=setup.origin,
                epoch=setup.epoch,
                label=setup.label,
                path=setup.path,
                version=setup.version + (1_000 if follows else 0),
            )
        )

    def _boast(self, peer: str) -> Frame:
        """It claims to know more than there is, or nothing at all."""
        known = dict.fromkeys(self._others, (1 << 62, 1 << 62)) if self._random.random() < 0.5 else {}
        return control_frame(Digest(known=known))

    def _false_danger(self, peer: str) -> Frame:
        victim = self._victim()
        notice = DangerNotice(
            name="forged",
            version=self._net.time_ns(),
            told_at=victim,
            centre=(0.0, 0.0),
            radius_km=100.0,
            left_s=60.0,
        )
        return signed_frame(FrameType.LINK_STATE, self._as(victim, self._sign(notice)))

    def _message_in_receivers_name(self, peer: str) -> Frame:
        place = self._net.federation.domain_order.index(peer)
        return Frame(
            FrameType.DATA,
            FALSE_BODY,
            hop_limit=8,
            origin=place,
            topic_class=0,
            epoch=self._net.engines[self.domain].epoch,
            destinations=1 << place,
            flow_id=self._random.randrange(1 << 30),
            sequence=1,
        )

    def _message_through_its_origin(self, peer: str) -> Frame | None:
        """In the receiver's name, for another: who is told by the receiver itself looks for no proof."""
        order = self._net.federation.domain_order
        victim = self._victim()
        if victim == peer:
            return None
        frame = self._message_in_receivers_name(peer)
        return msgspec.structs.replace(frame, destinations=1 << order.index(victim))

    def _message_in_anothers_name(self, peer: str) -> Frame | None:
        """Far ahead in a flow that may exist, so that what is true would look old."""
        victim = self._victim()
        known = self._ads.get(victim)
        if known is None or victim == peer:
            return None
        order = self._net.federation.domain_order
        frame = Frame(
            FrameType.DATA,
            FALSE_BODY,
            hop_limit=8,
            origin=order.index(victim),
            topic_class=self._random.randrange(5),
            epoch=known.epoch,
            destinations=1 << order.index(peer),
            flow_id=self._random.randrange(1, 6),
            sequence=1 << 40,
        )
        own = {order.index(peer): peer.encode()}
        return msgspec.structs.replace(frame, tags=tags_for(frame, content(frame), own, self._trust))


_Lie = Callable[[LyingGateway, str], Frame | None]
_LIES: list[tuple[str, _Lie]] = [
    ("link state of another", LyingGateway._false_ad),
    ("link state of others' links", LyingGateway._impossible_ad),
    ("change of another's interest", LyingGateway._false_interest),
    ("table of another's interest", LyingGateway._false_snapshot),
    ("said again", LyingGateway._again),
    ("said again", LyingGateway._again),
    ("route of another", LyingGateway._false_setup),
    ("answer for another", LyingGateway._false_ack),
    ("end of another's route", LyingGateway._false_teardown),
    ("boast", LyingGateway._boast),
    ("danger in another's name", LyingGateway._false_danger),
]
_LIES_IN_DATA: list[tuple[str, _Lie]] = [
    ("message in the receiver's name", LyingGateway._message_in_receivers_name),
    ("message through the receiver in its name", LyingGateway._message_through_its_origin),
    ("message in another's name", LyingGateway._message_in_anothers_name),
]
"""Frames that its engine did not send upset its count of what was acknowledged."""
