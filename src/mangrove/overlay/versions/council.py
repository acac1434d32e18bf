"""The council of domains: which version of the federation document is in force, and how the next one is.

Every domain says, to all, what is in force there and what it has promised and accepted for the next version
(`messages.VersionNotice`); what it said last replaces all before. From these notices alone everybody draws
the same conclusions, so that nothing depends on who asked first or lives on:

- An attempt has a ballot, higher than all that its domain has heard of. First it is *prepared*: every domain
  that can be reached gets the document, checks it, writes down that it will hear no lower ballot, and says
  so, or objects. Then it is *decided*: they accept it, and write that down.
- What a quorum has accepted under one ballot is in force, for everybody who knows of it; nobody has to say
  so. An attempt that finds something accepted before takes that up in place of its own (Paxos, one round for
  each version). So of two attempts, on two sides of a partition as well, at most one ever succeeds.
- What was accepted and not decided when its proposer died is taken up by another domain after a while; what
  was only prepared is forgotten.
- A domain that was away hears what is in force elsewhere, and follows.

No input or output, no clock: the engine passes on what is said, and writes down what must not be forgotten
before it is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from mangrove.errors import InputError
from mangrove.model.versions.changes import Change, ChangeState
from mangrove.model.versions.checking import content_problem, document_problem, kinship_problem
from mangrove.model.versions.document import FIRST_VERSION, FederationDocument, WrittenDocument
from mangrove.model.versions.kept import NO_BALLOT, Ballot, KeptVersions
from mangrove.model.versions.membership import is_quorum
from mangrove.overlay.versions.messages import MAX_NAME, MAX_OBJECTION, Step, VersionNotice
from mangrove.overlay.versions.table_switch import TableSwitch

PREPARE_S = 3.0
"""How long the domains that seem reachable are waited for; then those that answered must be enough."""
RESCUE_S = 4.0
"""What was accepted and not decided for so long is taken up by another domain."""
TURN_S = 0.5
"""Domains take turns, in the order of their numbers, so that they do not get in each other's way."""
MAX_ROUND = 1 << 40
MAX_ARRIVING = 8
"""Documents that are kept before anything is said of them."""
MAX_CHANGES = 16
MAX_REFUSED = 16
NEVER = float("inf")


class Held(NamedTuple):
    """A document in both forms."""

    written: WrittenDocument
    document: FederationDocument


class Refused(NamedTuple):
    """Why a document was not kept; with another signature, or other keys here, it may be."""

    written: WrittenDocument
    problem: str


class Council:
    """The part of one domain."""

    def __init__(
        self,
        domain: str,
        epoch: int,
        first: FederationDocument,
        kept: KeptVersions | None = None,
    ) -> None:
        kept = kept or KeptVersions()
        self._domain = domain
        self._epoch = epoch
        self._sequence = 0
        self.first = first
        self.document = first if kept.committed is None else kept.committed.read()
        """What is in force here."""
        self._switch = TableSwitch(self.document.version)
        self._committed = kept.committed
        self._digest = self.document.digest
        self._promised, self._accepted = kept.promised, kept.accepted
        self._accepted_digest = ""
        self._held: dict[str, Held] = {}
        """Documents that somebody speaks of, or will."""
        self._arriving: list[str] = []
        self._looked_at: dict[str, str] = {}
        """Why documents that are held cannot follow the one in force; empty for those that can."""
        self._refused: dict[str, Refused] = {}
        """Documents that were not kept."""
        if kept.accepted_document is not None:
            self._accepted_digest = kept.accepted_document.digest
            self._held[self._accepted_digest] = Held(kept.accepted_document, kept.accepted_document.read())
        if kept.committed is not None:
            self._held[self._digest] = Held(kept.committed, self.document)
        self._objected, self._objection = "", ""
        self._step, self._ballot, self._proposed = Step.NONE, NO_BALLOT, ""
        self._prepared_by = NEVER
        self._asked = ""
        """The document that was proposed here, while it is open what becomes of it."""
        self._next_attempt = NEVER
        self._notices: dict[str, VersionNotice] = {}
        self._kept = self.kept()
        self._said = self._sayings()
        self._adopted_at = 0
        """With which sequence it was said first that this version is in force."""
        self.decided_here = False
        """Whether what was concluded last hangs on what this domain itself has accepted."""
        self.changes: dict[str, Change] = {}
        """What was proposed here, and what became of it."""
        self.ignored = 0
        """Notices that make no sense."""
        if self._accepted != NO_BALLOT:
            self._next_attempt = 0.0

    # -- what is known ------------------------------------------------------------------------------------

    def kept(self) -> KeptVersions:
        """What must not be forgotten."""
        accepted = self._held.get(self._accepted_digest) if self._accepted != NO_BALLOT else None
        return KeptVersions(
            committed=self._committed,
            promised=self._promised,
            accepted=self._accepted,
            accepted_document=None if accepted is None else accepted.written,
        )

    @property
    def _members(self) -> tuple[str, ...]:
        """Who decides on the next version."""
        return self.document.members

    @property
    def is_member(self) -> bool:
        """Whether this domain is part of the federation, by what is in force."""
        return self._domain in self._members

    @property
    def _turn_s(self) -> float:
        return TURN_S * self._members.index(self._domain) if self.is_member else 0.0

    @property
    def forwards(self) -> int:
        """By the tables of which version this domain forwards."""
        return self._switch.forwards

    @property
    def tables_wanted(self) -> int:
        """For which version tables are to be made; none, if it is 0."""
        return self._switch.wanted

    def tables_ready(self, version: int, now: float) -> bool:
        """Tables were made; whether these are the ones that are wanted still."""
        return self._switch.made(version, now)

    def notice(self) -> VersionNotice:
        """What this domain says."""
        return VersionNotice(
            origin=self._domain,
            epoch=self._epoch,
            sequence=self._sequence,
            version=self.document.version,
            digest=self._digest,
            promised=self._promised,
            accepted=self._accepted,
            accepted_digest=self._accepted_digest,
            objected=self._objected,
            objection=self._objection,
            step=self._step,
            ballot=self._ballot,
            proposed=self._proposed,
            ready=self._switch.ready,
            forwards=self._switch.forwards,
        )

    def notice_in_force(self) -> VersionNotice:
        """What this domain said when this version came into force, before it promised anything further."""
        return VersionNotice(
            origin=self._domain,
            epoch=self._epoch,
            sequence=self._adopted_at,
            version=self.document.version,
            digest=self._digest,
            ready=self._switch.ready,
            forwards=self._switch.forwards,
        )

    @property
    def has_promised(self) -> bool:
        """Whether this domain has promised anything since this version came into force, in this life."""
        return bool(self._promised.round) and self._sequence > self._adopted_at

    def said_again(self) -> VersionNotice:
        """What this domain says, as something new."""
        self._sequence += 1
        return self.notice()

    @property
    def silent(self) -> bool:
        """Whether there is nothing to say: no change was ever attempted."""
        return self.document.version == FIRST_VERSION and not self._promised.round

    def notices(self) -> Iterator[VersionNotice]:
        """All that is known, the own first."""
        if not self.silent:
            yield self.notice()
        yield from self._notices.values()

    @property
    def digest(self) -> str:
        """Names the text of what is in force here."""
        return self._digest

    def held(self, digest: str) -> WrittenDocument | None:
        """A document that somebody speaks of."""
        held = self._held.get(digest)
        return None if held is None else held.written

    def versions(self) -> dict[str, int]:
        """What is in force at each domain, as far as it said so."""
        known = dict.fromkeys(self._members, FIRST_VERSION)
        known.update({name: notice.version for name, notice in self._notices.items()})
        known[self._domain] = self.document.version
        return known

    def answered(self) -> tuple[str, ...]:
        """The domains that have answered the present attempt of this one."""
        if self._step is Step.NONE:
            return ()
        return tuple(
            each.origin for each in self._peers() if each.promised == self._ballot or self._accepts(each)
        )

    def _accepts(self, notice: VersionNotice) -> bool:
        return notice.accepted == self._ballot != NO_BALLOT

    def _peers(self) -> list[VersionNotice]:
        """What domains say that have the same version in force, this one included."""
        mine = (self.document.version, self._digest)
        return [
            self.notice(),
            *(each for each in self._notices.values() if (each.version, each.digest) == mine),
        ]

    # -- what is heard ------------------------------------------------------------------------------------

    def begin(self, epoch: int) -> None:
        """A later life of this domain's gateway speaks from now on."""
        self._epoch, self._sequence, self._adopted_at = epoch, 0, 0

    def recall(self, kept: KeptVersions) -> None:
        """What the other gateway of this domain has written down, while this one stands by."""
        fresh = Council(self._domain, self._epoch, self.first, kept)
        if fresh.document.version < self.document.version:
            return
        self._switch.committed(fresh.document, self.document)
        for name in ("document", "_committed", "_digest", "_promised", "_accepted", "_accepted_digest"):
            setattr(self, name, getattr(fresh, name))
        self._held.update(fresh._held)
        self._looked_at.clear()
        self._next_attempt = fresh._next_attempt
        self._kept, self._said = self.kept(), self._sayings()

    def take(self, written: WrittenDocument, problem: str = "") -> bool:
        """A document came; `problem` is why its signature is not believed. True if it is news."""
        digest = written.digest
        refused = self._refused.get(digest)
        if digest in self._held or (refused is not None and refused.written.signature == written.signature):
            return False
        try:
            document = written.read()
        except ValueError as error:
            problem = f"it cannot be read: {error}"[:MAX_OBJECTION]
        else:
            problem = problem or kinship_problem(document, self.first) or content_problem(document)
        self._refused.pop(digest, None)
        if problem:
            if len(self._refused) >= MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
            self._refused[digest] = Refused(written, problem)
            return True
        self._held[digest] = Held(written, document)
        self._withdraw_objection(digest)
        self.expect(digest)
        self._prune()
        return True

    def expect(self, digest: str) -> None:
        """A document came, perhaps again: it is kept until what speaks of it has come, too."""
        self._arriving = [*(each for each in self._arriving if each != digest), digest][-MAX_ARRIVING:]

    def take_refused(self) -> list[WrittenDocument]:
        """Other keys are in force: what was refused is to be judged anew. Nobody sends it again."""
        refused = [each.written for each in self._refused.values()]
        self._refused.clear()
        return refused

    def hear(self, notice: VersionNotice) -> bool:
        """What another domain says; True if it is news."""
        if notice.origin == self._domain:
            return False
        if notice.origin not in self._members or not _sound(notice):
            self.ignored += 1
            return False
        known = self._notices.get(notice.origin)
        if known is not None and known.stamp >= notice.stamp:
            return False
        self._notices[notice.origin] = notice
        self._arriving = [each for each in self._arriving if each not in notice.named()]
        return True

    def knows(self, notice: VersionNotice) -> bool:
        """Whether something as new was heard of its origin."""
        known = self._notices.get(notice.origin)
        return notice.origin == self._domain or (known is not None and known.stamp >= notice.stamp)

    def _prune(self) -> None:
        """Keep the documents that somebody speaks of, and the last that came."""
        spoken_of = {self._asked, *self.notice().named(), *self._arriving}
        for notice in self._notices.values():
            spoken_of.update(notice.named())
        for digest in [digest for digest in self._held if digest not in spoken_of]:
            del self._held[digest]
            self._looked_at.pop(digest, None)

    # -- what is asked for here ---------------------------------------------------------------------------

    def propose(self, written: WrittenDocument, problem: str, now: float) -> str:
        """Somebody wants another version; its digest, or InputError with the reason why not.

        `problem` is why its signature is not believed. What was proposed already is not proposed again.
        """
        digest = written.digest
        if digest == self._asked or digest == self._digest:
            return digest
        if not self.is_member:
            raise InputError(
                f"{self._domain} has left the federation in version {self.document.version}",
                hint="ask a domain that is a member: mangrove history",
            )
        if self._asked:
            raise InputError(
                f"version {self.document.version + 1} is being agreed on already",
                hint="wait until it is in force: mangrove history",
            )
        try:
            document = written.read()
        except ValueError as error:
            raise InputError(f"this is no federation document: {error}") from None
        problem = problem or document_problem(document, self.document)
        if problem:
            raise InputError(f"version {document.version} cannot be put in force: {problem}")
        self._held[digest] = Held(written, document)
        self._looked_at[digest] = ""
        self._asked = digest
        self._note(digest, ChangeState.PREPARING)
        self._attempt(digest, now)
        return digest

    def _note(self, digest: str, state: ChangeState, detail: str = "") -> None:
        self.changes.pop(digest, None)
        self.changes[digest] = Change(digest=digest, state=state, detail=detail)
        if len(self.changes) > MAX_CHANGES:
            del self.changes[next(iter(self.changes))]

    # -- conclusions --------------------------------------------------------------------------------------

    def advance(self, now: float, reachable: Collection[str]) -> bool:
        """Draw all conclusions from what is known; whether something is to be written down and said."""
        self.decided_here = False
        before, version = None, self.document.version
        while before != self._sayings():
            before = self._sayings()
            self._follow(now)
            self._answer(now)
            self._pursue(now, reachable)
            self._switch.look(self._notices.values(), reachable, now)
        if before == self._said:
            return False
        self._said = before
        self._sequence += 1
        if self.document.version > version:
            self._adopted_at = self._sequence
        self._prune()
        return True

    def take_kept(self) -> KeptVersions | None:
        """What is to be written down before anything is said; None if it is the same as before."""
        kept = self.kept()
        if kept == self._kept:
            return None
        self._kept = kept
        return kept

    def _sayings(self) -> tuple[object, ...]:
        return (
            self.document.version,
            self._promised,
            self._accepted,
            self._accepted_digest,
            self._objected,
            self._step,
            self._ballot,
            self._proposed,
            self._switch.ready,
            self._switch.forwards,
        )

    def _follow(self, now: float) -> None:
        """What is in force elsewhere, or was accepted by a quorum, is in force here."""
        ahead = [
            (notice.version, notice.digest)
            for notice in self._notices.values()
            if notice.version > self.document.version and self._is(notice.digest, notice.version)
        ]
        if ahead:
            self._commit(max(ahead)[1])
            return
        accepted: dict[tuple[Ballot, str], set[str]] = {}
        for notice in self._peers():
            if notice.accepted != NO_BALLOT:
                accepted.setdefault((notice.accepted, notice.accepted_digest), set()).add(notice.origin)
        for (_, digest), domains in accepted.items():
            if is_quorum(domains, self._members) and self._is(digest, self.document.version + 1):
                self.decided_here |= not is_quorum(domains - {self._domain}, self._members)
                self._commit(digest)
                return

    def _is(self, digest: str, version: int) -> bool:
        held = self._held.get(digest)
        return held is not None and held.document.version == version

    def _commit(self, digest: str) -> None:
        held = self._held[digest]
        self._switch.committed(held.document, self.document)
        self._committed, self.document, self._digest = held.written, held.document, digest
        self._looked_at.clear()
        self._promised = self._accepted = NO_BALLOT
        self._accepted_digest = self._objected = self._objection = ""
        self._give_up()
        self._next_attempt = NEVER
        self._notices = {name: each for name, each in self._notices.items() if name in self._members}
        if self._asked:
            asked, self._asked = self._asked, ""
            if asked == digest or any(past.digest == asked for past in held.document.past):
                self._note(asked, ChangeState.IN_FORCE)
            else:
                whose = f", by {held.document.by}" if held.document.by else ""
                self._note(
                    asked,
                    ChangeState.REFUSED,
                    f"another change was in force first: version {held.document.version}{whose}",
                )

    def _answer(self, now: float) -> None:
        """Promise and accept what is asked for under the highest ballot."""
        if not self.is_member:
            return
        attempts = [each for each in self._peers() if each.step is not Step.NONE]
        if not attempts:
            return
        asking = max(attempts, key=lambda each: (each.ballot, each.step))
        if asking.ballot < self._promised:
            return
        held, refused = self._held.get(asking.proposed), self._refused.get(asking.proposed)
        if held is not None:
            problem = self._looked_at.get(asking.proposed)
            if problem is None:  # notices that speak of it come again and again
                problem = document_problem(held.document, self.document)
                self._looked_at[asking.proposed] = problem
        elif refused is not None:
            problem = refused.problem
        else:
            return  # the document is on its way
        if problem:
            self._objected, self._objection = asking.proposed, problem[:MAX_OBJECTION]
        else:
            self._withdraw_objection(asking.proposed)
            accepted = (self._accepted, self._accepted_digest)
            if asking.step is Step.DECIDE and (asking.ballot, asking.proposed) != accepted:
                self._accepted, self._accepted_digest = asking.ballot, asking.proposed
                self._next_attempt = now + RESCUE_S + self._turn_s
        self._promised = asking.ballot

    def _withdraw_objection(self, digest: str) -> None:
        """A document that was refused before is believed now, and may be in force here."""
        if self._objected == digest:
            self._objected = self._objection = ""

    def _attempt(self, digest: str, now: float) -> None:
        """Begin an attempt, above all that were heard of."""
        seen = [self._promised, *(max(each.promised, each.ballot) for each in self._notices.values())]
        self._ballot = Ballot(max(seen).round + 1, self._domain)
        self._step, self._proposed = Step.PREPARE, digest
        self._prepared_by = now + PREPARE_S
        self._next_attempt = NEVER

    def _give_up(self) -> None:
        self._step, self._ballot, self._proposed = Step.NONE, NO_BALLOT, ""
        self._prepared_by = NEVER

    def _pursue(self, now: float, reachable: Collection[str]) -> None:
        """Go on with the own attempt, or begin another where one is due."""
        if not self.is_member:
            return
        if self._step is Step.NONE:
            if now >= self._next_attempt:
                digest = self._accepted_digest or self._asked
                if digest:
                    self._attempt(digest, now)
                else:
                    self._next_attempt = NEVER
            return
        peers = self._peers()
        if any(each.promised > self._ballot for each in peers):
            self._give_up()
            self._next_attempt = now + RESCUE_S / 4 + self._turn_s
            return
        if self._step is Step.DECIDE:
            if now >= self._next_attempt:  # the notice stands: who hears of it later accepts it later
                self._next_attempt = now + RESCUE_S
            return
        answers = [each for each in peers if each.promised == self._ballot]
        objections = [each for each in answers if each.objected == self._proposed]
        promised = {each.origin for each in answers}
        undone = self._undone_if_given_up()
        if objections and undone:
            worst = min(objections, key=lambda each: each.origin)
            self._refuse(f"{worst.origin} objects: {worst.objection}")
        elif is_quorum(promised, self._members) and (promised >= set(reachable) or now >= self._prepared_by):
            self._decide(answers, now)
        elif now >= self._prepared_by:
            if undone:
                answered = ", ".join(sorted(promised))
                self._refuse(
                    f"only {len(promised)} of {len(self._members)} domains answered ({answered}); "
                    "a change needs more than half of them"
                )
            else:
                self._give_up()
                self._next_attempt = now + RESCUE_S + self._turn_s

    def _undone_if_given_up(self) -> bool:
        """Whether nobody can have accepted what was proposed here, so that nothing will come of it."""
        change = self.changes.get(self._asked)
        mine = self._proposed == self._asked
        return mine and change is not None and change.state is ChangeState.PREPARING

    def _decide(self, promises: list[VersionNotice], now: float) -> None:
        """What was accepted before, under the highest ballot, goes first."""
        accepted = [each for each in promises if each.accepted != NO_BALLOT]
        if accepted:
            digest = max(accepted, key=lambda each: each.accepted).accepted_digest
            if digest not in self._held:  # it is on its way
                self._prepared_by = now + PREPARE_S
                return
            self._proposed = digest
        self._step = Step.DECIDE
        self._prepared_by = NEVER
        if self._asked:
            self._note(self._asked, ChangeState.DECIDING)

    def _refuse(self, detail: str) -> None:
        self._note(self._asked, ChangeState.REFUSED, detail)
        self._asked = ""
        self._give_up()
        self._next_attempt = NEVER

    # -- time ---------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When `advance` has something to do, whatever comes."""
        return min(self._prepared_by, self._next_attempt, self._switch.timer())

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = []
        if self._accepted > self._promised:
            found.append("a ballot was accepted above the one that was promised")
        if self._accepted != NO_BALLOT and self._accepted_digest not in self._held:
            found.append("the accepted document is not there")
        if len(self._held) > 3 * len(self._members) + MAX_ARRIVING + 3:
            found.append("too many documents are kept")
        if self._accepted != NO_BALLOT and self._step is Step.NONE and self._next_attempt == NEVER:
            found.append("what was accepted is never looked at again")
        return found


def _sound(notice: VersionNotice) -> bool:
    ballots = (notice.promised, notice.accepted, notice.ballot)
    return (
        notice.version >= FIRST_VERSION
        and all(0 <= each.round <= MAX_ROUND and len(each.domain) <= MAX_NAME for each in ballots)
        and (notice.step is Step.NONE or notice.ballot.domain == notice.origin)
        and notice.accepted <= notice.promised
    )
