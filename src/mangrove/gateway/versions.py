"""Versions of the federation document at a gateway: kept on disk, asked for, and put in force."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic

import msgspec

from mangrove.errors import InputError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.audit.entry import AuditKind
from mangrove.model.federation import Federation
from mangrove.model.questions.versions_question import VersionsAnswer, VersionsRequest
from mangrove.model.unreadable import UNREADABLE
from mangrove.model.versions.checking import kinship_problem
from mangrove.model.versions.document import FederationDocument, first_document, same_network
from mangrove.model.versions.kept import KeptVersions
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction

log = logging.getLogger(__name__)

AGAIN_S = 1.0
MAX_UNSAID = 1024
UNWRITTEN = "versions cannot be written down, which is tried again every second: %s"
WRITTEN_AGAIN = "versions are written down again"
REMEDY = (
    "start with the federation file of the version in force (mangrove history --text VERSION), or give the "
    "site an empty run directory if the whole federation begins anew"
)


def kept_versions(path: str, federation: Federation, domain: str) -> KeptVersions:
    """What earlier lives have written down; InputError if that and the site's file do not belong together."""
    if not path:
        return KeptVersions()
    kept = VersionStore(Path(path)).read()
    if kept.committed is not None:
        document = kept.committed.read()
        if document.federation == federation.name and domain not in document.members:
            raise InputError(
                f"{domain} has left {document.federation}, or was expelled, in version {document.version}",
                hint=f"mangrove join FILE --domain {domain} makes it a member again",
            )
        if document.federation != federation.name or not same_network(document, federation):
            raise InputError(
                f"version {document.version} of {document.federation}, which is in force, has other domains "
                "or links than the federation file",
                hint=REMEDY,
            )
    elif kept.accepted_document is not None:
        problem = kinship_problem(kept.accepted_document.read(), first_document(federation))
        if problem:
            raise InputError(f"a change that was agreed to cannot be completed: {problem}", hint=REMEDY)
    return kept


class Versions:
    """Writes down what must not be forgotten, and answers what is asked."""

    def __init__(self, path: str, audit: AuditLog) -> None:
        self._store = VersionStore(Path(path)) if path else None
        self._audit = audit
        self._writer = ThreadPoolExecutor(1, "versions")
        self.tell_other: Callable[[KeptVersions], None] = lambda kept: None
        """Tells the other gateway of the domain, if there is one."""
        self._number = 0
        """Of the state that was to be written last; only that one is worth another try."""
        self._unsaid: deque[tuple[int, Callable[[], None]]] = deque(maxlen=MAX_UNSAID)
        """What is done when the state of this number, or a later one, is on disk."""
        self._failing = False
        self._again: asyncio.TimerHandle | None = None

    def keep(
        self, kept: KeptVersions, then: Callable[[], None] | None = None, *, at_once: bool = False
    ) -> None:
        """Write it down, and tell the other gateway; `then` do what depends on it.

        A disk may take its time, in which messages flow; so a thread writes, one state after the other.
        """
        self.tell_other(kept)
        if self._store is None or at_once:
            self.keep_told(kept)
            if then is not None:
                then()
            return
        self._write(kept, then)

    def keep_told(self, kept: KeptVersions) -> None:
        """Write down what the other gateway of the domain has written down, or what cannot wait.

        What is in force is acted upon all the same if that fails, since frames under it follow; it is written
        as soon as the disk takes it.
        """
        if self._store is None:
            return
        self._number += 1
        try:
            self._writer.submit(self._store.write, kept).result()
        except OSError as error:
            self._failed(error, kept)
        else:
            self._on_disk_now(self._number)

    def _write(self, kept: KeptVersions, then: Callable[[], None] | None = None) -> None:
        assert self._store is not None
        self._number += 1
        if then is not None:
            self._unsaid.append((self._number, then))
        writing = asyncio.get_running_loop().run_in_executor(self._writer, self._store.write, kept)
        writing.add_done_callback(partial(self._written, self._number, kept))

    def _written(self, number: int, kept: KeptVersions, writing: asyncio.Future[None]) -> None:
        if writing.cancelled():
            return
        if (error := writing.exception()) is None:
            self._on_disk_now(number)
        elif number == self._number:  # else something newer has been written since, or is about to be
            self._failed(error, kept)

    def _on_disk_now(self, number: int) -> None:
        """What hangs on this state, or on an earlier one, can be done."""
        if self._failing:
            log.warning(WRITTEN_AGAIN)
        self._failing = False
        while self._unsaid and self._unsaid[0][0] <= number:
            self._unsaid.popleft()[1]()

    def _failed(self, error: BaseException, kept: KeptVersions) -> None:
        """Try it again, since a disk may have room later.

        What is not on disk is not said meanwhile: others count this domain as one that does not answer.
        """
        if not self._failing:
            log.error(UNWRITTEN, error)
        self._failing = True
        if self._again is not None:
            self._again.cancel()
        self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._once_more, self._number, kept)

    def _once_more(self, number: int, kept: KeptVersions) -> None:
        self._again = None
        if number == self._number:
            self._write(kept)

    def close(self) -> None:
        """Nothing more is written."""
        if self._again is not None:
            self._again.cancel()
        self._writer.shutdown(wait=False, cancel_futures=True)

    def adopted(self, document: FederationDocument) -> None:
        """Another version is in force."""
        log.info("version %d of the federation document is in force", document.version)
        self._audit.note(
            AuditKind.VERSION_IN_FORCE, version=document.version, by=document.by, digest=document.digest
        )

    def answer(
        self, request: bytes, engine: OverlayEngine, carry_out: Callable[[list[Instruction]], None]
    ) -> bytes:
        """Answer a question, or take in what somebody proposes."""
        try:
            asked = msgspec.json.decode(request, type=VersionsRequest) if request else VersionsRequest()
            if asked.propose is not None:
                carry_out(engine.propose(asked.propose, monotonic()))
                document = asked.propose.read()
                self._audit.note(AuditKind.VERSION_PROPOSED, version=document.version, by=document.by)
        except UNREADABLE as error:
            return msgspec.json.encode(VersionsAnswer(problem=f"the request cannot be read: {error}"))
        except InputError as error:
            return msgspec.json.encode(VersionsAnswer(problem=error.message, hint=error.hint))
        kept = engine.kept_versions().committed
        digest = asked.change if asked.propose is None else asked.propose.digest
        return msgspec.json.encode(
            VersionsAnswer(
                domain=engine.domain,
                document=engine.document.text() if engine.document.version > asked.newer_than else b"",
                signature=b"" if kept is None else kept.signature,
                versions=engine.versions_in_force(),
                reachable=tuple(sorted(engine.reachable_domains())),
                change=engine.change(digest) if digest else None,
                text=self._text_of(asked.text_of),
            )
        )

    def _text_of(self, version: int) -> bytes:
        return b"" if self._store is None or not version else self._store.text(version)
