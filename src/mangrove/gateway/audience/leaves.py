"""Which publishers have leave to be silent, on which subjects (`model.questions.audience` has the rules).

No clock and no sockets: requests and interest go in, answers and `Wanted` come out.

A leave is given if the subject was unwanted from when somebody first asked about it until now, and the
domain's brokers have been seen to hang together since then: an edge that is cut off takes its subscribers
with it without a word, and a publisher at the same edge must not fall silent to them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable

from mangrove.gateway.audience.acknowledgements import Acknowledgements
from mangrove.gateway.audience.subject_tree import SubjectTree
from mangrove.model.questions.audience import (
    LEAVE_S,
    MAX_LEAVES,
    MAX_SILENT_CLIENTS,
    MAX_SUBJECTS_A_QUESTION,
    UNHEARD_S,
    AudienceAnswer,
    AudienceRequest,
    Wanted,
    client_name_problem,
)
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.versions.rules_in_force import Rules

MAX_LOOKED_AT = 20_000
"""So many nodes are looked at for the patterns of one moment; beyond that, all leaves are taken back."""
PAUSE_S = 5.0
"""For so long no leave is given after that."""
WATCHED_S = 40.0
"""A subject that was asked about is watched for so long: whoever asks again need not wait."""
ORDER_S = 1.0
"""Subjects are ordered by when they were asked about, as exactly as this."""
MAX_NUMBER = 1 << 53
MAX_UNANSWERED = 5
UNANSWERED_S = 60.0
"""If more publishers do not answer within so long, nobody is given leave for as long."""

TOO_MANY_CLIENTS = "too many clients have leave to be silent"
NOT_ANSWERED = "clients with leave to be silent did not answer when somebody subscribed"
TOO_MUCH_INTEREST = "subscriptions come too fast to compare them with all leaves"
BAD_REQUEST = "question for leave to be silent that breaks the rules"


class _Client:
    __slots__ = ("asked_at", "number", "told", "until", "unwilling")

    def __init__(self, number: int) -> None:
        self.asked_at = 0.0
        self.number = number
        self.until: dict[str, float] = {}
        """Subjects on which it has leave, and until when."""
        self.told: dict[int, tuple[str, ...]] = {}
        """What it has not confirmed, by number."""
        self.unwilling = False
        """Whether it has let such a number pass."""


class _Subject:
    """A subject that somebody asked about, and that nobody wants."""

    __slots__ = ("asked_at", "holders", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.asked_at = now
        self.holders: dict[str, None] = {}
        """Clients that have leave."""


class Leaves:
    """All leaves of a domain's publishers, and who waits until one is taken back."""

    def __init__(self, rules: Rules, unwanted: Callable[[str], bool]) -> None:
        """`unwanted` says whether nobody in the federation wants a literal subject."""
        self._rules = rules
        self._unwanted = unwanted
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        """The one that has asked last at the end."""
        self._subjects: OrderedDict[str, _Subject] = OrderedDict()
        """The one that was asked about last at the end."""
        self._tree = SubjectTree()
        self._notices: dict[str, dict[str, float]] = {}
        """Subjects to tell clients of, with the end of the leave."""
        self._acknowledgements = Acknowledgements()
        self._holds = 0
        """So often leave may have been given that is not in these books."""
        self._looked = 0
        self._paused_until = float("-inf")
        self._paused_because = ""
        self._unanswered: deque[float] = deque()
        self.counts: Counter[str] = Counter()
        """What was refused or went wrong."""
        self.given = 0
        """Leaves in force, of all clients."""
        self.taken_back = 0

    def __bool__(self) -> bool:
        """Whether interest matters here."""
        return bool(self._subjects)

    @property
    def clients(self) -> int:
        """Clients that have leave, or ask for it."""
        return len(self._clients)

    @property
    def awaited(self) -> int:
        """Publishers that have been told, and have not said that they know."""
        return len(self._acknowledgements)

    # -- publishers ask -----------------------------------------------------------------------------------

    def ask(self, request: AudienceRequest, now: float, proven_at: float, problem: str) -> AudienceAnswer:
        """Answer a publisher. The brokers were last seen to hang together at `proven_at`.

        With a `problem` nobody is given leave. What was given before stays in the books until it has run out:
        this answer may get lost.
        """
        self.expire(now)
        bad = client_name_problem(request.client.rpartition(".")[2]) or not 0 <= request.knows < MAX_NUMBER
        if bad or len(request.subjects) > MAX_SUBJECTS_A_QUESTION:
            self.counts[BAD_REQUEST] += 1
            return AudienceAnswer(problem=BAD_REQUEST)
        client = self._clients.get(request.client)
        if client is None:
            if len(self._clients) >= MAX_SILENT_CLIENTS:
                self.counts[TOO_MANY_CLIENTS] += 1
                return AudienceAnswer(problem=TOO_MANY_CLIENTS)
            client = self._clients[request.client] = _Client(request.knows)
        client.asked_at = now
        self._clients.move_to_end(request.client)
        self._confirm(request.client, client, request.knows)
        named = dict.fromkeys(request.subjects)
        for subject in [subject for subject in client.until if subject not in named]:
            self._end(request.client, client, subject)
        problem = problem or self._refusal(client, now)
        if problem:
            self.counts[problem] += 1
            return AudienceAnswer(problem=problem, number=client.number)
        granted = [
            subject for subject in named if self._grant(request.client, client, subject, now, proven_at)
        ]
        if not (named or client.told or request.client in self._notices):
            del self._clients[request.client]
        return AudienceAnswer(unwanted=tuple(granted), number=client.number)

    def _refusal(self, client: _Client, now: float) -> str:
        if client.unwilling:
            return NOT_ANSWERED
        return self._paused_because if now < self._paused_until else ""

    def _grant(self, name: str, client: _Client, subject: str, now: float, proven_at: float) -> bool:
        found = self._subjects.get(subject)
        if found is None:
            if len(self._subjects) >= MAX_LEAVES or not self._may_be_silent(subject):
                return False
            found = self._subjects[subject] = _Subject(now)
            self._tree.add(subject)
        elif found.asked_at < now - ORDER_S:
            found.asked_at = now
            self._subjects.move_to_end(subject)
        if found.since > proven_at:
            return False
        if subject not in client.until:
            if self.given >= MAX_LEAVES:
                return False
            self.given += 1
            found.holders[name] = None
        client.until[subject] = now + LEAVE_S
        return True

    def _may_be_silent(self, subject: str) -> bool:
        if is_internal(subject) or subject_problem(subject, wildcards=False):
            self.counts[BAD_REQUEST] += 1
            return False
        contract = self._rules.contract_of(subject)
        kept_for_later = contract.always_send or contract.durable or bool(contract.mirror)
        return not kept_for_later and self._unwanted(subject)

    def _end(self, name: str, client: _Client, subject: str) -> float:
        """A client has no leave on a subject any more; until when it thinks that it has."""
        del self._subjects[subject].holders[name]
        self.given -= 1
        return client.until.pop(subject)

    def _confirm(self, name: str, client: _Client, knows: int) -> None:
        for number in [number for number in client.told if number <= knows]:
            del client.told[number]
            self._acknowledgements.known(name, number)
        client.number = max(client.number, knows)

    # -- somebody listens ---------------------------------------------------------------------------------

    def wanted(self, pattern: str) -> None:
        """Somebody wants a subject, or all under a pattern. `notices` must follow in the same moment."""
        if pattern in self._subjects:
            self._take_back(pattern)
        elif "*" in pattern or ">" in pattern:
            found = self._tree.under(pattern, MAX_LOOKED_AT - self._looked)
            if found is None:
                self._take_back_all()
                return
            self._looked += 1 + found[1]
            for subject in found[0]:
                self._take_back(subject)

    def _take_back(self, subject: str) -> None:
        for name in list(self._subjects[subject].holders):
            until = self._end(name, self._clients[name], subject)
            self._notices.setdefault(name, {})[subject] = until
            self.taken_back += 1
        self._forget(subject)

    def _forget(self, subject: str) -> None:
        del self._subjects[subject]
        self._tree.remove(subject)

    def _take_back_all(self) -> None:
        for subject in list(self._subjects):
            self._take_back(subject)
        self.counts[TOO_MUCH_INTEREST] += 1
        self._paused_because = TOO_MUCH_INTEREST
        self._looked = MAX_LOOKED_AT

    def notices(self, now: float) -> list[tuple[str, Wanted]]:
        """What to tell clients because of all that came to be wanted since the last call."""
        if self._looked >= MAX_LOOKED_AT:
            self._paused_until = now + PAUSE_S
        self._looked = 0
        told: list[tuple[str, Wanted]] = []
        for name, subjects in self._notices.items():
            until, client = max(subjects.values()), self._clients.get(name)
            if client is None or until <= now:
                continue
            before = (subject for unanswered in client.told.values() for subject in unanswered)
            named = tuple(dict.fromkeys((*before, *subjects)))
            client.number += 1
            client.told[client.number] = tuple(subjects)
            self._acknowledgements.tell(name, client.number, until)
            told.append((name, Wanted(number=client.number, subjects=named)))
        self._notices.clear()
        return told

    def unheard(self, name: str, now: float) -> None:
        """Nobody at the management broker heard what a client was told."""
        client = self._clients.get(name)
        for number in () if client is None else client.told:
            self._acknowledgements.unheard(name, number, now + UNHEARD_S)

    def hold(self, until: float) -> None:
        """Publishers may have leave that is not in these books; so they may again, for another reason."""
        self._holds += 1
        self._acknowledgements.tell("", self._holds, until)

    def when_known(self, done: Callable[[], None]) -> None:
        """Call `done` when all who lost their leave so far know it: at once, most often."""
        self._acknowledgements.after(done)

    # -- time ---------------------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Forget clients that ask for nothing any more; nobody waits longer than for the end of a leave."""
        for late in self._acknowledgements.expire(now):
            client = self._clients.get(late.client)
            if client is not None:
                client.told.pop(late.number, None)
            if late.heard and late.client:
                self.counts[NOT_ANSWERED] += 1
                self._unanswered.append(now)
                if client is not None:
                    client.unwilling = True
        while self._unanswered and self._unanswered[0] < now - UNANSWERED_S:
            self._unanswered.popleft()
        if len(self._unanswered) > MAX_UNANSWERED:
            self._unanswered.clear()
            self._paused_until, self._paused_because = now + UNANSWERED_S, NOT_ANSWERED
        while self._clients:
            name, client = next(iter(self._clients.items()))
            if now < client.asked_at + 2 * LEAVE_S:
                break
            for subject in list(client.until):
                self._end(name, client, subject)
            del self._clients[name]
        while self._subjects:
            subject, found = next(iter(self._subjects.items()))
            if found.holders or now < found.asked_at + WATCHED_S:
                break
            self._forget(subject)

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = []
        has = {(subject, name) for name, client in self._clients.items() for subject in client.until}
        held = {(subject, name) for subject, each in self._subjects.items() for name in each.holders}
        if has != held:
            found.append("clients and subjects differ")
        if self.given != len(has):
            found.append("leaves were miscounted")
        if len(self._tree) != len(self._subjects):
            found.append("the tree differs from the subjects")
        if sum(len(client.told) for client in self._clients.values()) > self.awaited:
            found.append("somebody was told something that nobody waits for")
        return found
