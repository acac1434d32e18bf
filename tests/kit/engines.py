"""Engines for tests: small federations, links that have passed their tests, what a shell would send."""

from __future__ import annotations

from collections.abc import Iterable

from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.topics import TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction, SendFrame, ServeLink
from mangrove.overlay.protocol.control_messages import (
    Heartbeat,
    HeartbeatKind,
    InterestUpdate,
    LinkReport,
    LinkStateAd,
    control_frame,
)
from mangrove.overlay.trust.trust import Trust


def federation(*pairs: tuple[str, str], topics: TopicRules | None = None) -> Federation:
    names = sorted({name for pair in pairs for name in pair})
    return Federation(
        name="test",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(Link(between=pair, delay_ms=1) for pair in pairs),
        topics=topics or TopicRules(),
    )


def engine(shape: Federation, domain: str, epoch: int = 1, trust: Trust | None = None) -> OverlayEngine:
    return OverlayEngine(shape, domain, epoch, trust=trust)


def with_links(shape: Federation, domain: str, trust: Trust | None = None) -> OverlayEngine:
    """An engine whose links have all passed their tests."""
    made = engine(shape, domain, trust=trust)
    for link in shape.links_of(domain):
        peer = link.other(domain)
        made.peer_up(peer, now=0.0)
        answer = Heartbeat(kind=HeartbeatKind.TEST_ACK, sequence=1, sent=0.0, received=0)
        made.receive(peer, control_frame(answer), 0.01)
        assert made.usable(peer)
    return made


def let_time_pass(
    engine: OverlayEngine, start: float, end: float, heard: Iterable[str] = ()
) -> list[Instruction]:
    """Serve the timers as a shell would; only some neighbours give signs of life."""
    instructions: list[Instruction] = []
    now = start
    while now < end:
        now = min(end, max(now + 0.001, engine.timer()))
        for peer in heard:
            engine.heard(peer, now)
        instructions += engine.handle_timer(now)
    return instructions


def want(engine: OverlayEngine, *subjects: str, now: float = 1.0) -> list[Instruction]:
    """Somebody in the engine's own domain subscribes."""
    for subject in subjects:
        engine.change_local_interest(subject, "", True)
    return engine.flush(now)


def data(sender: OverlayEngine, instructions: list[Instruction], now: float = 1.0) -> list[Instruction]:
    """Without heartbeats, advertisements and the like; with the data that a shell would pull."""
    found: list[Instruction] = []
    for instruction in instructions:
        if isinstance(instruction, ServeLink):
            while (frame := sender.pull(instruction.peer, now)) is not None:
                found.append(SendFrame(instruction.peer, frame))
        elif not isinstance(instruction, SendFrame):
            found.append(instruction)
    return found


def learn(receiver: OverlayEngine, author: str, subjects: list[str], peer: str) -> list[Instruction]:
    snapshot = InterestUpdate(origin=author, epoch=1, version=1, snapshot=True, added=subjects)
    return receiver.receive(peer, control_frame(snapshot), 1.0)


def report(
    up: bool = True,
    delay_ms: float = 10.0,
    waits_ms: dict[int, float] | None = None,
    availability: float = 1.0,
) -> LinkReport:
    return LinkReport(up=up, delay_ms=delay_ms, waits_ms=waits_ms or {}, availability=availability)


def ad(origin: str, sequence: int, epoch: int = 1, **links: LinkReport) -> LinkStateAd:
    return LinkStateAd(origin=origin, epoch=epoch, sequence=sequence, links=dict(links))
