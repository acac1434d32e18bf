"""The errors that Mangrove raises on purpose.

Every error carries the data that describes it, a message for people, and a `hint`: what to do about it.
The command line turns them into `error: … / hint: …` and the exit code of the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EXIT_NEGATIVE = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class MangroveError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = EXIT_NEGATIVE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def system_words(error: OSError) -> str:
    """What the system did not do, with the place if it names one."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


class InputError(MangroveError):
    """What the user gave is malformed; nothing was started or changed."""

    exit_code = EXIT_BAD_INPUT


class UntrustedError(MangroveError):
    """Somebody did not prove to be who it says, or is no longer believed."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason, hint=hint)
        self.reason = reason


MAX_TOLD = 600
"""Characters of what is wrong in one place."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in an input document: where it is, what is wrong there, what is allowed."""

    path: str
    problem: str
    allowed: str = ""

    def __str__(self) -> str:
        path, problem = _within(self.path), _within(self.problem)
        text = f"{path}: {problem}" if path else problem
        return f"{text} (allowed: {self.allowed})" if self.allowed else text


def _within(text: str) -> str:
    """Both ends of a text: a document may hold a name of a megabyte."""
    half = MAX_TOLD // 2
    return text if len(text) <= MAX_TOLD else f"{text[:half]} … {text[-half:]}"


class InvalidDocumentError(InputError):
    """An input document with all of its mistakes."""

    def __init__(self, source: str, mistakes: Sequence[Mistake], *, hint: str = "") -> None:
        self.source = source
        self.mistakes = tuple(mistakes)
        count = len(self.mistakes)
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes)
        plural = "" if count == 1 else "s"
        super().__init__(f"{source} has {count} mistake{plural}:\n{lines}", hint=hint)


class Mistakes:
    """Collects the mistakes of one document while it is read, so that all of them are reported at once."""

    def __init__(self, source: str, *, hint: str = "") -> None:
        self.source = source
        self.hint = hint
        self._noted: list[Mistake] = []

    def note(self, path: str, problem: str, allowed: str = "") -> None:
        """Add a mistake and read on."""
        self._noted.append(Mistake(path, problem, allowed))

    def __len__(self) -> int:
        return len(self._noted)

    def any_under(self, path: str) -> bool:
        """Whether something is wrong in a part of the document: what follows from it need not be told."""
        return any(mistake.path.startswith(path) for mistake in self._noted)

    def raise_if_any(self) -> None:
        """`InvalidDocumentError` with all that was noted."""
        if self._noted:
            raise InvalidDocumentError(self.source, self._noted, hint=self.hint)
