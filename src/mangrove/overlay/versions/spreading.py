"""How notices and documents about versions travel: to every neighbour, each once, documents before notices.

A link delivers in order. So whoever hears that something is in force has its document already; and whoever
gets a frame under a contract has heard before that the contract is in force, on that very link: its sender
said so when it learnt it, ahead of all data.

Who hears that nobody speaks of a document any more forgets it. So it is sent again to a neighbour who was
told that an attempt at it was given up, and with every new attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mangrove.overlay.instructions import Instruction, SendFrame, send_control
from mangrove.overlay.protocol.control_messages import control_frame
from mangrove.overlay.protocol.frames import Frame, FrameType
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.protocol.signed_bodies import signed_frame
from mangrove.overlay.versions.council import Council
from mangrove.overlay.versions.messages import VersionNotice, VersionText

MAX_TOLD = 1 << 10
"""Documents of which it is remembered that a neighbour has them; the council keeps fewer."""


class Spreading:
    """Who has been told what on the connection that there is."""

    def __init__(self, council: Council) -> None:
        self._council = council
        self._told: dict[str, set[str]] = {}
        """Documents that each connected neighbour has; those who cannot understand them are not here."""
        self._last: dict[str, dict[str, VersionNotice]] = {}
        """What each of them heard last on this connection, or said, by whose notice it is."""
        self._deaf: set[str] = set()
        self._frames: dict[str, tuple[VersionNotice, Frame]] = {}

    def peer_up(self, peer: str, *, understands: bool) -> None:
        """A neighbour is there; those of an older release understand nothing of versions."""
        self._deaf.discard(peer)
        if understands:
            self._told[peer] = set()
            self._last[peer] = {}
        else:
            self._deaf.add(peer)

    def all_understand(self) -> bool:
        """Whether no neighbour is of an older release."""
        return not self._deaf

    def peer_down(self, peer: str) -> None:
        """A neighbour is gone."""
        self._told.pop(peer, None)
        self._last.pop(peer, None)
        self._deaf.discard(peer)

    def came(self, peer: str, digest: str) -> None:
        """A neighbour has sent a document, which is kept here."""
        if peer in self._told:
            told = self._told[peer]
            if (
                len(told) >= MAX_TOLD
            ):  # it makes many that nobody needs; at worst something is sent to it twice
                told.intersection_update([each for each in told if self._council.held(each) is not None])
            told.add(digest)

    def heard(self, peer: str, notice: VersionNotice) -> None:
        """A neighbour has sent a notice."""
        if peer in self._told:
            self._forget(peer, notice)

    def keep(self, notice: VersionNotice, signed: Signed | None) -> None:
        """In whose words a notice is passed on."""
        frame = control_frame(notice) if signed is None else signed_frame(FrameType.VERSIONS, signed)
        self._frames[notice.origin] = (notice, frame)

    def kept(self, notice: VersionNotice) -> bool:
        """Whether these very words are ready to be passed on."""
        return self._frames.get(notice.origin, (None,))[0] == notice

    def is_notice(self, sent: SendFrame) -> bool:
        """Whether a frame holds a notice, and not a document."""
        return any(sent.frame is frame for _, frame in self._frames.values())

    def spread(self, notice: VersionNotice, source: str = "") -> list[Instruction]:
        """Tell all neighbours but the one that it came from."""
        return [each for peer in self._told if peer != source for each in self._tell(peer, notice)]

    def introduce(self, peer: str, notices: Iterable[VersionNotice]) -> list[Instruction]:
        """Tell a neighbour that has just come everything."""
        return [each for notice in notices for each in self._tell(peer, notice)] if peer in self._told else []

    def _tell(self, peer: str, notice: VersionNotice) -> Iterator[Instruction]:
        told = self._told[peer]
        self._forget(peer, notice)
        for digest in notice.named():
            written = None if digest in told else self._council.held(digest)
            if written is not None:
                told.add(digest)
                yield send_control(peer, VersionText(document=written))
        yield SendFrame(peer, self._frames[notice.origin][1])

    def _forget(self, peer: str, notice: VersionNotice) -> None:
        """Documents that a neighbour may not have any more when it has heard this."""
        last = self._last[peer].get(notice.origin)
        self._last[peer][notice.origin] = notice
        if last is not None:
            self._told[peer] -= {last.proposed, last.accepted_digest} - set(notice.named())
            if notice.ballot != last.ballot:
                self._told[peer].discard(notice.proposed)
