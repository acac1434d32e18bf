"""How the messages of a frame come in: by the class of the frame, whatever contracts hold meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mangrove.gateway.mediation.mediation import Way


class Manner(NamedTuple):
    """What is the same for all messages of a frame."""

    way: Way | None = None
    """Through a transform, if there is one."""
    each: bool = False
    """Whether every queue group of the domain gets what names none, not only plain subscribers."""


AS_IT_IS = Manner()
EACH = Manner(each=True)
