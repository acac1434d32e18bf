"""One gateway of a pair: its role, the line to the other one, and what is told over it.

It lives as long as the process, while the gateway that it serves is made anew each time it was displaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from time import monotonic, time_ns
from typing import Protocol, TypeVar

import msgspec

from mangrove.gateway.pair.line import PairLine
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.federation import Federation
from mangrove.model.gateway_settings import PairSettings
from mangrove.model.status import PairStatus
from mangrove.model.unreadable import UNREADABLE
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.pair.messages import (
    Beat,
    Ending,
    Figures,
    PairHello,
    RecordKind,
    Role,
    names_records,
    read_names,
    read_word,
    record,
    word_record,
)
from mangrove.overlay.pair.roles import CARRYING, PairRoles, RoleChange
from mangrove.overlay.protocol.control_messages import Digest, InterestUpdate
from mangrove.overlay.protocol.frames import FrameError, Name

log = logging.getLogger(__name__)

COMPARE_EVERY_S = 2.0
"""How often one that stands by compares what it knows of interest; changes are told at once."""
RECENT_NAMES = 1 << 14
"""As many as a journal holds."""
FUTURE_NS = 3600 * 10**9
"""An epoch so far ahead of the clock is nobody's."""

_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder().encode
_update = msgspec.msgpack.Decoder(InterestUpdate)
_digest = msgspec.msgpack.Decoder(Digest)
_kept = msgspec.msgpack.Decoder(KeptVersions)


class Partner(Protocol):
    """The gateway whose role it is."""

    def figures(self) -> Figures:
        """What it has counted."""

    def delivered_names(self) -> list[Name]:
        """The frames that were delivered last."""

    def told_names(self, names: list[Name]) -> None:
        """The other gateway delivers these frames."""

    def told_interest(self, update: InterestUpdate) -> bool:
        """The other gateway tells what a domain wants; whether something is missing in between."""

    def interest_digest(self) -> Digest:
        """What it knows of all domains' interest."""

    def interest_beyond(self, digest: Digest) -> Iterable[InterestUpdate]:
        """What somebody lacks who knows so much."""

    def other_at(self, broker: str) -> None:
        """The gateway that carries is attached to a broker of this name."""

    def kept_versions(self) -> KeptVersions:
        """What it has written down of versions of the federation document."""

    def told_versions(self, kept: KeptVersions) -> None:
        """What the other gateway has written down of them."""

    def cleared(self) -> None:
        """What was withheld may be delivered."""


class Pair:
    """Owns the line and the role. `changes` tells the gateway what to do."""

    def __init__(
        self,
        settings: PairSettings,
        federation: Federation,
        domain: str,
        *,
        keys: KeysInForce | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.settings = settings
        self._roles = PairRoles(settings.number, monotonic())
        hello = PairHello(
            federation=federation.name,
            topology=federation.topology_hash(),
            domain=domain,
            number=settings.number,
        )
        self._line = PairLine(settings, hello, self, keys=keys, audit=audit)
        self._partner: Partner | None = None
        self.changes: asyncio.Queue[RoleChange] = asyncio.Queue()
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._compare_at = 0.0
        self._fenced = False
        self._stopping = False
        self._recent: deque[Name] = deque(maxlen=RECENT_NAMES)
        self.told = 0
        """Names that the other one told."""
        self.given_up = 0
        """Messages that this process let go of when it was displaced."""
        self.ignored = 0
        """Words about gateways of this domain that make no sense."""

    # -- life ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the line and the role until cancelled; then the other one is told that this one stops."""
        self._tick()
        try:
            await self._line.run()
        finally:
            self._stopping = True
            for handle in (self._timer, self._soon):
                if handle is not None:
                    handle.cancel()

    def serve(self, partner: Partner) -> None:
        """The gateway whose role it is from now on; it hears what was told while there was none."""
        self._partner = partner
        partner.told_names(list(self._recent))

    def stop(self) -> None:
        """Deliver nothing any more, and let the other one take over."""
        self._stopping = True
        self._line.close(Ending.STOPS)

    # -- what the gateway says ----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Of the present life, while this gateway carries; else 0."""
        return self._roles.epoch

    def take_over(self) -> int:
        """The epoch of the life that begins; the other one hears of it at once."""
        epoch = self._roles.take_over(time_ns(), monotonic())
        self._serve()
        return epoch

    @property
    def leaves_s(self) -> float:
        """For how long publishers may be silent by leave of the gateway before."""
        before = self._roles.predecessor
        return 0.0 if before is None else before.leaves_s

    def begun(self) -> None:
        """Everything carries."""
        self._roles.begun(monotonic())
        if self._partner is not None:
            self.tell_versions(self._partner.kept_versions())
        self._serve()

    def let_go(self) -> None:
        """Nothing carries any more."""
        self._roles.let_go(monotonic())
        self._compare_at = 0.0
        self._serve()

    def may_deliver(self) -> bool:
        """Whether nobody else can have taken this gateway's place.

        Who was told no is told no until `Partner.cleared`, so that nothing overtakes what was withheld. That
        is never said while the question is being answered, so that nothing is withheld after it.
        """
        if self._fenced or self._stopping:
            return False
        if self._roles.may_deliver(monotonic()):
            return True
        self._fenced = True
        self._soon = asyncio.get_running_loop().call_soon(self._tick)
        return False

    def tell_names(self, names: Iterable[Name]) -> None:
        """These frames are delivered next."""
        self._line.say(names_records(names))

    def tell_interest(self, body: bytes) -> None:
        """A neighbour tells what a domain wants."""
        if self._roles.connected:
            self._line.say(record(RecordKind.INTEREST, body))

    def tell_versions(self, kept: KeptVersions) -> None:
        """This was written down of versions, and is about to be told."""
        if self._roles.connected:
            self._line.say(record(RecordKind.VERSIONS, _encode(kept)))

    def learned(self, epoch: int) -> None:
        """Somebody says that a gateway of this domain began then."""
        if epoch > time_ns() + FUTURE_NS:
            self.ignored += 1
            return
        self._roles.learned(epoch, monotonic())
        self._follow()

    def status(self) -> PairStatus:
        """For the gateway's account of itself."""
        roles = self._roles
        other = "" if roles.other is None else roles.other.role.value
        before = roles.predecessor or Figures()
        return PairStatus(
            number=roles.number,
            process=self.settings.process,
            role=roles.role.value,
            other=other or "away",
            takeovers=roles.takeovers,
            fences=roles.fences,
            names_told=self.told,
            given_up=self.given_up + (0 if roles.other is None else roles.other.figures.given_up),
            ignored=self.ignored + self._line.refusals.total,
            refused=dict(self._line.refusals.counts),
            sent_before=before.sent,
            delivered_before=before.delivered,
        )

    # -- what the line says -------------------------------------------------------------------------------

    def line_up(self) -> None:
        """The other gateway is there."""
        self._roles.line_up(monotonic())
        self._compare_at = 0.0
        if self._partner is not None and self._roles.role in CARRYING:
            self._line.say(names_records(self._partner.delivered_names()))
            self.tell_versions(self._partner.kept_versions())
        self._serve()

    def line_down(self, ending: Ending | None) -> None:
        """It said goodbye, or died."""
        self._roles.line_down(monotonic(), ending)
        self._serve()

    def said(self, kind: RecordKind, body: bytes) -> None:
        """It said something."""
        if self._partner is None:
            return
        match kind:
            case RecordKind.BEAT:
                beat = read_word(kind, body)
                assert isinstance(beat, Beat)
                self._roles.heard(beat, monotonic())
                if beat.role is Role.ACTIVE:
                    self._partner.other_at(beat.figures.broker)
                self._serve()
            case RecordKind.NAMES:
                names = read_names(body)
                self.told += len(names)
                self._recent.extend(names)
                self._partner.told_names(names)
            case RecordKind.INTEREST:
                if self._partner.told_interest(_decoded(_update, body)):
                    self._compare()
            case RecordKind.DIGEST:
                for part in self._partner.interest_beyond(_decoded(_digest, body)):
                    self._line.say(record(RecordKind.INTEREST, _encode(part)))
            case RecordKind.VERSIONS:
                self._partner.told_versions(_decoded(_kept, body))
            case _:
                raise FrameError(f"a second {kind.name}")

    def _compare(self) -> None:
        if self._partner is not None:
            self._compare_at = monotonic() + COMPARE_EVERY_S
            self._line.say(record(RecordKind.DIGEST, _encode(self._partner.interest_digest())))

    # -- time ---------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Hear what was said, do what is due, and come back."""
        if self._timer is not None:
            self._timer.cancel()
        self._line.read()  # before silence is judged
        self._serve()
        if not self._stopping:
            self._timer = asyncio.get_running_loop().call_at(self._roles.timer(), self._tick)

    def _serve(self) -> None:
        """Say what is due, and act upon what was found."""
        now = monotonic()
        beats = self._roles.serve(now)
        dead = self._roles.line_dead(now)
        if self._roles.role is Role.STANDBY and now >= self._compare_at:
            self._compare()
        figures = Figures() if self._partner is None else self._partner.figures()
        for beat in beats:
            self._line.say(word_record(msgspec.structs.replace(beat, figures=figures)))
        self._follow()
        if dead and self._roles.role is Role.ACTIVE:
            self._line.close(Ending.SILENT)
            self._roles.line_down(now, Ending.SILENT)
        if self._fenced and not self._stopping and self._roles.may_deliver(monotonic()):
            self._fenced = False
            if self._partner is not None:
                self._partner.cleared()

    def _follow(self) -> None:
        for change in self._roles.take_changes():
            log.info("%s: %s", change.role.value, change.finding.value)
            self.changes.put_nowait(change)


def _decoded(decoder: msgspec.msgpack.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise FrameError(f"malformed word of the other gateway: {error}") from None
