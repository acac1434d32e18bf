"""The corpus of the mutator: what gateways of a simulated federation say to each other, a few of each kind.

`python -m tests.kit.frame_corpus` writes it to tests/data/frames; inputs that once broke something are kept
there as well, under names that begin with `broke-`, and stay.
"""

from __future__ import annotations

from collections import defaultdict

from tests.kit.attachments import message
from tests.kit.mutation import CORPUS

from mangrove.config import parse_federation
from mangrove.model.federation import Federation
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.topics import Contract
from mangrove.model.versions.document import WrittenDocument, first_document
from mangrove.model.versions.succession import successor
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.control_messages import (
    Goodbye,
    Renewal,
    RenewalStep,
    RouteAck,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType, Predecessor
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import SimulatedOverlay

RING = """
federation: test
domains:
  a: {location: [47.6, -122.3]}
  b: {location: [39.7, -105.0]}
  c: {location: [28.5, -81.4]}
  d: {location: [32.8, -117.2]}
links:
  - {between: [a, b], delay_ms: 3}
  - {between: [b, c], delay_ms: 3}
  - {between: [c, d], delay_ms: 3}
  - {between: [a, d], delay_ms: 3}
queue_bytes: 1048576
topics:
  - {match: "alert.>", deadline_ms: 100, paths: 2}
  - {match: "jobs.>", deadline_ms: 500}
"""
OF_EACH = 3
SEED = 1


class _Listening(SimulatedOverlay):
    """A simulated federation that keeps some of the frames that arrive, by kind."""

    said: dict[str, list[bytes]]

    def _arrive(self, link: object, sender: str, connection: int, frame: Frame) -> None:
        keep(self.said, frame)
        super()._arrive(link, sender, connection, frame)  # type: ignore[arg-type]


def keep(said: dict[str, list[bytes]], frame: Frame) -> None:
    """Keep a frame, unless there are enough of its kind or it is hardly another."""
    kept, encoded = said[kind_of(frame)], frame.encode()
    if len(kept) < OF_EACH and all(abs(len(each) - len(encoded)) > 2 for each in kept):
        kept.append(encoded)


def kind_of(frame: Frame) -> str:
    """The name of what a frame says."""
    try:
        return type(control_body(frame)).__name__
    except FrameError:
        return frame.type.name


def recorded() -> dict[str, list[bytes]]:
    """What is said in a federation with keys, and in one without."""
    said: dict[str, list[bytes]] = defaultdict(list)
    federation = parse_federation(RING, "ring").require()
    authority = SimulatedAuthority(list(federation.domains), SEED)
    _Listening.said = said
    _live(_Listening(federation, SEED, authority=authority), federation)
    _live(_Listening(federation, SEED), federation)
    _say_the_rest(said, federation)
    return said


def _live(network: SimulatedOverlay, federation: Federation) -> None:
    """A ring starts, carries, changes a contract, loses a link and heals."""
    network.run(1.0)
    for name in federation.domains:
        network.subscribe(name, f"alert.{name}", f"jobs.{name}", "sensor.*.level")
    network.run(2.0)
    for number in range(4):
        network.publish("a", "alert.c", message("alert.c", b"x" * 10 * number))
        network.publish("a", "jobs.c", message("jobs.c", b"work", groups=("workers",)))
        network.publish("d", "sensor.1.level", message("sensor.1.level", b"7", reply="_INBOX.d.1"))
    network.manage("a", "b", b'{"type":"load"}')
    network.avoid("b", AvoidRequest(name="coast", centre=(28.0, -81.0), radius_km=200.0))
    network.propose("a", _change(network, federation))
    network.run(3.0)
    network.black_hole("a", "b", True)
    network.run(4.0)
    network.black_hole("a", "b", False)
    for name in federation.domains:
        network.unsubscribe(name, f"alert.{name}")
    network.run(8.0)


def _change(network: SimulatedOverlay, federation: Federation) -> WrittenDocument:
    """One more contract, approved where there is an authority."""
    contracts = (*federation.topics.contracts, Contract(match="sensor.>", deadline_ms=900.0))
    text = successor(first_document(federation), contracts, by="operator", at="now").text()
    approve = None if network.authority is None else network.authority.approve
    return WrittenDocument(text=text, signature=b"" if approve is None else approve(text))


def _say_the_rest(said: dict[str, list[bytes]], federation: Federation) -> None:
    """What is not said in a simulation."""
    engine = OverlayEngine(federation, "a", 1 << 60)
    body = message("alert.c", b"y" * 64)
    for frame in (
        engine.hello(),
        control_frame(Renewal(step=RenewalStep.LAST)),
        control_frame(Goodbye(reason="the gateway stops", displaced_by=7)),
        control_frame(
            RouteAck(origin="a", epoch=1, label=1, path=["a", "b"], version=1, ok=False, reason="no")
        ),
        Frame(FrameType.PIECE, body[:40], stream=1),
        Frame(FrameType.DATA, body[40:], hop_limit=5, origin=0, destinations=4, stream=1, flow_id=3),
        Frame(FrameType.JOBS, message("jobs.c", b"w", groups=("g",)), hop_limit=5, destinations=6, epoch=1),
        Frame(
            FrameType.DATA,
            body,
            hop_limit=9,
            origin=3,
            topic_class=1,
            epoch=1 << 60,
            destinations=2,
            label=2,
            sequence=9,
            predecessors=(Predecessor(1, 5, 2), Predecessor(2, 6, 1 << 20)),
        ),
    ):
        keep(said, frame)


def write() -> None:
    """Write what was recorded; what once broke something stays."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    for kind, frames in recorded().items():
        for number, encoded in enumerate(frames, 1):
            (CORPUS / f"{kind}-{number}.bin").write_bytes(encoded)


if __name__ == "__main__":
    write()
