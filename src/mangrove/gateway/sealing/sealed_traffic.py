"""Sealed bodies at one gateway: opened where they are delivered, and booked where they are lost.

Only the two ends of a way look into a sealed body. A gateway in between counts what it loses under the
contract's `match`, by the number of messages that the body claims to hold.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from mangrove.gateway.ledger import Ledger, topics_in
from mangrove.gateway.sealing.refusal import Refusal, UnopenedError
from mangrove.model.status import SealingFigures
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sealing.sealed_body import claimed_messages, is_sealed
from mangrove.overlay.sides.data_side import FALSE_ORIGIN

TOLD_EVERY_S = 5.0
MAX_TOLD = 256
"""Different refusals that wait to be told in the story; those beyond are only counted."""


class Opens(Protocol):
    """Who has the keys."""

    def open(self, frame: Frame) -> bytes:
        """The body of a frame for this domain, once; UnopenedError says why not."""

    def look_into(self, frame: Frame) -> bytes:
        """The body of a frame for this domain or from it."""


class SealedTraffic:
    """What a gateway does with bodies that may be sealed. Without an opener none can be opened here."""

    def __init__(self, engine: OverlayEngine, ledger: Ledger, opener: Opens | None = None) -> None:
        self._engine = engine
        self._ledger = ledger
        self._opener = opener
        self._rules = engine.rules
        self._opened = 0
        self._turned_back = 0
        self._refused: Counter[Refusal] = Counter()
        self._untold: Counter[tuple[int, int, Refusal]] = Counter()
        """Refusals by origin and topic class that the story does not know yet."""
        self._tell_at = 0.0

    # -- delivery -----------------------------------------------------------------------------------------

    def opened(self, frame: Frame) -> bytes | None:
        """The messages of a frame for this domain; None if it is refused, which is booked."""
        if is_sealed(frame.body):
            try:
                body = self._key_holder.open(frame)
            except UnopenedError as error:
                self._refuse(frame, error.refusal)
                return None
            self._opened += 1
            return body
        if self._rules.contract_at(frame.topic_class).confidential:
            self._refuse(frame, Refusal.NOT_SEALED)
            return None
        return frame.body

    # -- other ends ---------------------------------------------------------------------------------------

    def drop(self, frame: Frame, reason: str) -> None:
        """Book the loss of all messages in a frame. A forged one is not looked into: it is no message of
        anybody, and what it says is what its forger likes to see in the books."""
        if reason == FALSE_ORIGIN:
            self._ledger.drop_unnamed(reason, 1)
            return
        body = self._readable(frame)
        if body is not None:
            self._ledger.drop_body(body, reason)
            return
        match = self._rules.contract_at(frame.topic_class).match
        self._ledger.drop_sealed(match, reason, claimed_messages(frame.body))

    def messages_in(self, frame: Frame) -> int:
        """How many messages a frame holds."""
        body = self._readable(frame)
        return claimed_messages(frame.body) if body is None else topics_in(body)[0].total()

    def to_sort_anew(self, frame: Frame) -> bytes | None:
        """The messages of a frame whose destination is lost; None if only its origin can sort them anew.

        There are none if it is refused: in the name of this domain only what it has sealed itself comes back.
        """
        if not is_sealed(frame.body):
            if not self._rules.contract_at(frame.topic_class).confidential:
                return frame.body
            self._refuse(frame, Refusal.NOT_SEALED)
            return b""
        try:
            return self._key_holder.look_into(frame)
        except UnopenedError as error:
            if self._engine.federation.domain_order[frame.origin] == self._engine.domain:
                self._refuse(frame, error.refusal)
                return b""
            self._turned_back += 1
            return None

    def _readable(self, frame: Frame) -> bytes | None:
        """The messages of a frame, if this gateway is one of its ends or it is not sealed."""
        if not is_sealed(frame.body):
            return frame.body
        try:
            return self._key_holder.look_into(frame)
        except UnopenedError:
            return None

    @property
    def _key_holder(self) -> Opens:
        if self._opener is None:
            raise UnopenedError(Refusal.NO_KEYS)
        return self._opener

    # -- accounts -----------------------------------------------------------------------------------------

    def _refuse(self, frame: Frame, refusal: Refusal) -> None:
        self._refused[refusal] += 1
        self._ledger.refuse_body(refusal)
        key = (frame.origin, frame.topic_class, refusal)
        if key in self._untold or len(self._untold) < MAX_TOLD:
            self._untold[key] += 1

    def tell(self, now: float) -> None:
        """Tell the story what was refused: at once, and then not too often."""
        if not self._untold or now < self._tell_at:
            return
        self._tell_at = now + TOLD_EVERY_S
        untold, self._untold = self._untold, Counter()
        for (origin, topic_class, refusal), count in untold.items():
            self._engine.body_refused(origin, topic_class, refusal, count, now)

    def figures(self, sealed: int = 0, without_key: tuple[str, ...] = ()) -> SealingFigures:
        """What was sealed, opened and refused."""
        return SealingFigures(
            sealed=sealed,
            opened=self._opened,
            turned_back=self._turned_back,
            refused={refusal.value: count for refusal, count in self._refused.items()},
            without_key=without_key,
        )
