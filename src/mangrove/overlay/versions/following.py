"""The council of domains on the overlay: what is heard is judged and passed on, what is concluded is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from mangrove.errors import InputError
from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Federation
from mangrove.model.versions.changes import Change
from mangrove.model.versions.document import FederationDocument, WrittenDocument, first_document
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.succession import difference
from mangrove.overlay.events.happenings import ChangeProposed, VersionInForce
from mangrove.overlay.instructions import Instruction, KeepVersions, SendFrame
from mangrove.overlay.protocol.frames import VERSIONS_PROTOCOL
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.trust.notary import VERSION, Notary
from mangrove.overlay.trust.refusals import Refusal
from mangrove.overlay.versions.council import Council
from mangrove.overlay.versions.messages import VersionNotice, VersionText
from mangrove.overlay.versions.spreading import Spreading

WRONG = "notice about versions that makes no sense"


class VersionsFollower:
    """What one gateway hears, concludes and says of versions."""

    def __init__(
        self,
        domain: str,
        federation: Federation,
        epoch: int,
        kept: KeptVersions | None,
        notary: Notary,
        events: EventLog,
    ) -> None:
        """`federation` is what the site's file says; where something was kept, that holds."""
        committed = None if kept is None or kept.committed is None else kept.committed.read()
        first = first_document(federation) if committed is None else committed
        self.council = Council(domain, epoch, first, kept)
        self._file = federation
        self._notary = notary
        self._events = events
        self._spreading = Spreading(self.council)

    @property
    def document(self) -> FederationDocument:
        """What is in force here."""
        return self.council.document

    @property
    def ignored(self) -> Counter[str]:
        """What was not heeded."""
        return Counter({WRONG: self.council.ignored}) if self.council.ignored else Counter()

    def change(self, digest: str) -> Change | None:
        """What became of something that was proposed here."""
        return self.council.changes.get(digest)

    def begin(self, epoch: int) -> None:
        """A later life of this domain's gateway speaks from now on."""
        self.council.begin(epoch)

    def renew(self) -> list[Instruction]:
        """The keys have changed: what was refused is judged by them, what this gateway said is said again."""
        for written in self.council.take_refused():
            self.council.take(written, self._approval(written))
        if self.council.silent:
            return []
        notice = self.council.said_again()
        self._spreading.keep(notice, self._signed(notice))
        return self._when_kept(self._spreading.spread(notice))

    # -- neighbours and time ------------------------------------------------------------------------------

    def peer_up(self, peer: str, protocol: int) -> list[Instruction]:
        """A neighbour is there: it is told everything, before anything else.

        What is promised here may not be on disk yet. Then it follows what is in force, which cannot wait.
        """
        self._spreading.peer_up(peer, understands=protocol >= VERSIONS_PROTOCOL)
        told: list[Instruction] = []
        notices = list(self.council.notices())
        if self.council.has_promised:
            in_force = self.council.notice_in_force()
            self._spreading.keep(in_force, self._signed(in_force))
            told = self._spreading.introduce(peer, [in_force, *notices[1:]])
            notices = notices[:1]
        for notice in notices[:1]:
            if not self._spreading.kept(notice):
                self._spreading.keep(notice, self._signed(notice))
        return told + self._when_kept(self._spreading.introduce(peer, notices))

    def peer_down(self, peer: str) -> None:
        """A neighbour is gone."""
        self._spreading.peer_down(peer)

    def timer(self) -> float:
        """When `advance` has something to do."""
        return self.council.timer()

    # -- what is heard, asked and concluded ---------------------------------------------------------------

    def receive(
        self, peer: str, message: VersionText | VersionNotice, signed: Signed | None
    ) -> list[Instruction]:
        """What a neighbour tells; passed on if it is news."""
        if isinstance(message, VersionText):
            written = message.document
            digest = written.digest
            if self.council.held(digest) is None:
                self.council.take(written, self._approval(written))
            else:
                self.council.expect(digest)
            if self.council.held(digest) is not None:  # what is not kept is told to nobody
                self._spreading.came(peer, digest)
            return []
        if not self._believes(peer, message, signed):
            return []
        self._spreading.heard(peer, message)
        if not self.council.hear(message):
            return []
        self._spreading.keep(message, signed)
        return self._spreading.spread(message, peer)

    def propose(self, written: WrittenDocument, now: float) -> str:
        """Somebody here wants another version: its digest, or InputError with the reason why not."""
        if not self._spreading.all_understand():
            raise InputError(
                "a neighbour runs an older release, which does not know that a federation may change",
                hint="run the same release at all sites first",
            )
        digest = self.council.propose(written, self._approval(written), now)
        document = written.read()
        if document.version == self.document.version + 1:
            what = difference(self.document, document, self._file).summary()
            self._events.note(ChangeProposed(version=document.version, by=document.by, what=what), now)
        return digest

    def advance(self, now: float, reachable: Collection[str]) -> list[Instruction]:
        """Draw conclusions: what is to be written down, and then said."""
        before = self.document
        if not self.council.advance(now, reachable):
            return []
        adopted = self.document is not before
        if adopted:
            self._note(before, now)
        notice = self.council.notice()
        self._spreading.keep(notice, self._signed(notice))
        told = self._spreading.spread(notice)
        kept = self.council.take_kept()
        if kept is not None and adopted:
            # Neighbours must hear of it before any frame under it. That a quorum has accepted it is written
            # down elsewhere, unless this domain was needed for it; that, and a promise that was given in the
            # same breath, has to be kept first.
            at_once = bool(kept.promised.round) or self.council.decided_here
            return [KeepVersions(kept, at_once=at_once), *told]
        return self._when_kept(told)

    def _when_kept(self, told: list[Instruction]) -> list[Instruction]:
        """Documents at once; notices when what they promise is on disk, also if it could not be written."""
        if not self.council.has_promised:
            return told
        notices = tuple(
            each for each in told if isinstance(each, SendFrame) and self._spreading.is_notice(each)
        )
        documents = [each for each in told if each not in notices]
        return [*documents, KeepVersions(self.council.kept(), notices)]

    def _note(self, before: FederationDocument, now: float) -> None:
        document = self.document
        what = difference(before, document, self._file).summary()
        self._events.note(
            VersionInForce(version=document.version, before=before.version, by=document.by, what=what), now
        )

    # -- keys ---------------------------------------------------------------------------------------------

    def _signed(self, notice: VersionNotice) -> Signed | None:
        return self._notary.sign(notice) if self._notary.secured else None

    def _approval(self, written: WrittenDocument) -> str:
        """Why the authority is not believed to have signed a document; empty if it has, or nobody signs."""
        return self._notary.trust.approved(written.text, written.signature) if self._notary.secured else ""

    def _believes(self, peer: str, notice: VersionNotice, signed: Signed | None) -> bool:
        if not self._notary.secured or self.council.knows(notice):
            return True
        if signed is None:
            self._notary.refuse(peer, notice.origin, VERSION, Refusal.UNSIGNED)
            return False
        return self._notary.judged(peer, notice.origin, VERSION, signed) is not None

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        return self.council.problems()
