"""From the description of a transform to something that can be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mangrove.errors import MangroveError
from mangrove.model.mediation.transform import Transform

Apply = Callable[[bytes, str, Mapping[str, str]], bytes | None]
"""Payload, subject and headers of a message: its new payload, or None if it is left out."""


class TransformError(MangroveError):
    """A transform that cannot be made, with the key at which it fails."""

    def __init__(self, key: str, problem: str, *, hint: str = "") -> None:
        super().__init__(problem, hint=hint)
        self.key = key


class UnfitMessageError(MangroveError):
    """A message that cannot be transformed, or whose result is none."""


def made(transform: Transform) -> Apply:
    """Something to be called, or TransformError. Imports the user's module, where it is a function."""
    # What only some transforms need is loaded by those alone.
    if transform.function:
        from mangrove.mediation.functions import found_function

        return found_function(transform.function)
    if transform.stylesheet:
        from mangrove.mediation.stylesheets import stylesheet

        return stylesheet(transform.stylesheet)
    from mangrove.mediation.documents import document

    return document(transform)
