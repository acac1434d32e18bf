"""Where answers from one domain to another may lead."""

from __future__ import annotations

from mangrove.model.subjects import REPLY_PREFIX, is_internal
from mangrove.overlay.engine import OverlayEngine


class Replies:
    """Judges reply subjects, and the subjects that answers are sent to."""

    def __init__(self, engine: OverlayEngine) -> None:
        self._engine = engine

    def lead_back(self, reply: str) -> bool:
        """Whether a reply subject leads to a domain, so that what answers it is judged at the border."""
        domain, _, inbox = reply[len(REPLY_PREFIX) :].partition(".")
        return reply.startswith(REPLY_PREFIX) and bool(inbox) and domain in self._engine.federation.domains

    def may_lead_to(self, subject: str) -> bool:
        """Whether an answer may lead to a subject in another domain.

        Where there are rules, to inboxes alone: whoever answers would else publish in the name of its own
        domain, and under its own rights, wherever the one who asks wants.
        """
        return self._engine.border is None or is_internal(subject)
