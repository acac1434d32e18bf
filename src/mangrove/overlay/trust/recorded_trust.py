"""Answers about keys and clocks: noted while an engine runs, and given again when it is replayed.

Only answers are kept, never keys: a recording holds signatures and certificates, which are public.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from mangrove.errors import MangroveError
from mangrove.overlay.protocol.frames import TAG_BYTES
from mangrove.overlay.protocol.signed import Signed
from mangrove.overlay.trust.trust import Judgement, Trust

_T = TypeVar("_T")
Answer = Signed | tuple[str, float] | int | str
"""What was signed; a problem and an age; a time of day; a tag that was wrong."""
WRONG_TAG = "wrong tag"


class OtherQuestionError(MangroveError):
    """An engine that is replayed asks something else than the recorded one did."""


class NotingTrust:
    """The same answers as another trust gives, which are also noted."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._noted: list[Answer] = []

    def take(self) -> list[Answer]:
        """The answers since the last call."""
        noted, self._noted = self._noted, []
        return noted

    def signed(self, said: bytes) -> Signed:
        """Sign what this gateway says."""
        signed = self._trust.signed(said)
        self._noted.append(signed)
        return signed

    def judge(self, origin: str, signed: Signed) -> Judgement:
        """Whether a domain has said this."""
        judgement = self._trust.judge(origin, signed)
        self._noted.append((judgement.problem, judgement.age_s))
        return judgement

    def approved(self, text: bytes, signature: bytes) -> str:
        """Whether the authority has signed a document."""
        problem = self._trust.approved(text, signature)
        self._noted.append((problem, 0.0))
        return problem

    def time_ns(self) -> int:
        """The time of day."""
        time_ns = self._trust.time_ns()
        self._noted.append(time_ns)
        return time_ns

    def tag(self, credential: bytes, content: bytes) -> bytes:
        """A tag, which is not noted: recordings hold no bodies, and so no tags."""
        return self._trust.tag(credential, content)

    def tagged(self, credentials: tuple[bytes, ...], content: bytes, tag: bytes) -> bool:
        """Noted only if it is wrong."""
        right = self._trust.tagged(credentials, content, tag)
        if not right:
            self._noted.append(WRONG_TAG)
        return right


class RecordedTrust:
    """Gives answers that were noted, in their order. It holds no keys."""

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()

    def expect(self, answers: Iterable[Answer]) -> None:
        """The answers to what is asked next."""
        self._answers.clear()
        self._answers.extend(answers)

    def signed(self, said: bytes) -> Signed:
        """What was signed then, if the same was said."""
        answer = self._next(Signed)
        if answer.said != said:
            raise OtherQuestionError("the engine signs something else than the recorded one did")
        return answer

    def judge(self, origin: str, signed: Signed) -> Judgement:
        """What was thought of it then."""
        return Judgement(*self._next(tuple))

    def approved(self, text: bytes, signature: bytes) -> str:
        """What was thought of it then."""
        problem, _ = self._next(tuple)
        return str(problem)

    def time_ns(self) -> int:
        """The time of day then."""
        return self._next(int)

    def tag(self, credential: bytes, content: bytes) -> bytes:
        """None that means anything."""
        return bytes(TAG_BYTES)

    def tagged(self, credentials: tuple[bytes, ...], content: bytes, tag: bytes) -> bool:
        """Right, unless it was noted as wrong."""
        wrong = bool(self._answers) and self._answers[0] == WRONG_TAG
        if wrong:
            self._answers.popleft()
        return not wrong

    def _next(self, kind: type[_T]) -> _T:
        if not self._answers or not isinstance(self._answers[0], kind):
            raise OtherQuestionError("the engine asks its keys what the recorded one did not")
        answer = self._answers.popleft()
        assert isinstance(answer, kind)
        return answer
