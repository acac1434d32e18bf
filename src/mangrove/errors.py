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


class InputError(MangroveError):
    """What the user gave is malformed; nothing was started or changed."""

    exit_code = EXIT_BAD_INPUT


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in an input document: where it is, what is wrong there, what is allowed."""

    path: str
    problem: str
    allowed: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.problem}" if self.path else self.problem
        return f"{text} (allowed: {self.allowed})" if self.allowed else text


class InvalidDocumentError(InputError):
    """An input document with all of its mistakes."""

    def __init__(self, source: str, mistakes: Sequence[Mistake], *, hint: str = "") -> None:
        self.source = source
        self.mistakes = tuple(mistakes)
        count = len(self.mistakes)
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes)
        plural = "" if count == 1 else "s"
        super().__init__(f"{source} has {count} mistake{plural}:\n{lines}", hint=hint)
