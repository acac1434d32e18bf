"""What a gateway asks of its head broker because other domains want it, and who is told when it is taken."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from mangrove.broker.attachment import Attachment
from mangrove.overlay.engine import OverlayEngine

SUBSCRIBED_PER_TURN = 2000
"""Subjects that are subscribed to, at a broker that is back, before others get their turn."""

Applied = tuple[tuple[str, int, int], ...]
"""Domains, and up to which version of their interest was acted upon."""


class HeadSubscriptions:
    """Follows what is wanted elsewhere, also at a broker that was away.

    What was asked for is confirmed when the broker has taken it and (`when_known`) the domain's publishers
    that were silent know of it. A gateway that stands by asks for the same at the broker at which the other
    one is attached, and for nothing elsewhere.
    """

    def __init__(
        self,
        engine: OverlayEngine,
        attachment: Attachment,
        own: list[str],
        confirmed: Callable[[Applied], None],
        when_known: Callable[[Callable[[], None]], None],
    ) -> None:
        """`own` is what the gateway wants for itself."""
        self._engine = engine
        self._attachment = attachment
        self._own = own
        self._confirmed = confirmed
        self._when_known = when_known
        self._broker: str | None = None
        """The one that is there."""
        self._other_at = ""
        """Where the gateway is attached that carries while this one stands by, as far as is known."""
        self._listening = False
        """Whether this one, standing by, is subscribed like that."""
        self._subscribed = False
        self._times = 0
        """How often all was asked for anew."""
        self._writable = True
        self._to_confirm: dict[str, tuple[str, int, int]] = {}
        self._confirming = False
        self._left: deque[str] = deque()
        """What is still to be told to a broker that is back."""
        self._next_slice: asyncio.Handle | None = None

    @property
    def taken(self) -> bool:
        """Whether the broker has taken all that was asked of it."""
        if not self._subscribed or self._confirming or self._left:
            return False
        return self._engine.standing_by or not self._to_confirm

    def attached(self, broker: str) -> None:
        """The broker of this name is there, and knows nothing."""
        self._broker = broker
        self._listening = False
        if self._engine.standing_by:
            self._listen()
        else:
            self._subscribe()

    def begin(self) -> None:
        """The gateway, which stood by, carries: the others hear that their interest was acted upon."""
        if self._listening:
            self._to_confirm |= {each[0]: each for each in self._engine.applied_interest()}
            self.confirm(())
        elif self._broker is not None:
            self._subscribe()

    def other_at(self, broker: str) -> None:
        """The gateway that carries, while this one stands by, is attached to a broker of this name.

        At the same one, what it carries is asked for here too, and thrown away: so when it dies, nothing is
        lost until this one is heard. At different ones, what it delivers would come here as if published.
        """
        self._other_at = broker
        if self._engine.standing_by and self._broker is not None:
            self._listen()

    def _listen(self) -> None:
        listening = self._other_at == self._broker != ""
        if listening and not self._listening:
            self._subscribe()
        elif self._listening and not listening:
            self._attachment.unsubscribe([*self._own, *self._engine.wanted_elsewhere()])
            self._stop()
        self._listening = listening

    def _subscribe(self) -> None:
        self._subscribed = True
        self._times += 1
        self._attachment.subscribe(self._own)
        self._confirming = False
        self._to_confirm |= {each[0]: each for each in self._engine.applied_interest()}
        self._left = deque(self._engine.wanted_elsewhere())
        self._subscribe_some()

    def lost(self) -> None:
        """The broker is gone."""
        self._broker = None
        self._listening = False
        self._stop()

    def _stop(self) -> None:
        self._subscribed = False
        self._writable = True
        self._left.clear()
        if self._next_slice is not None:
            self._next_slice.cancel()
            self._next_slice = None

    def writable(self, writable: bool) -> None:
        """The broker can take more, or for now cannot."""
        self._writable = writable
        if writable and self._left and self._next_slice is None:
            self._subscribe_some()

    def _subscribe_some(self) -> None:
        """Subscribe to a slice of what is wanted; a broker that takes no more now is not given more."""
        self._next_slice = None
        if not self._writable:
            return
        left = self._left
        some = [left.popleft() for _ in range(min(SUBSCRIBED_PER_TURN, len(left)))]
        self._attachment.subscribe(filter(self._engine.is_wanted_elsewhere, some))
        if not left:
            self.confirm(())
        else:
            self._next_slice = asyncio.get_running_loop().call_soon(self._subscribe_some)

    def change(self, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        """Other domains want other subjects; a broker that is away is told when it is back."""
        if self._subscribed:
            self._attachment.subscribe(add)
            self._attachment.unsubscribe(remove)

    def confirm(self, applied: Applied) -> None:
        """Have the broker confirm that it has taken the subscriptions so far; one question at a time.

        A gateway that stands by speaks to nobody, and keeps this until it carries.
        """
        self._to_confirm |= {each[0]: each for each in applied}
        if self._engine.standing_by:
            return
        if self._subscribed and self._to_confirm and not (self._confirming or self._left):
            self._confirming = True
            asked = tuple(self._to_confirm.values())
            self._to_confirm.clear()
            self._attachment.confirm(partial(self._taken, asked))

    def _taken(self, applied: Applied) -> None:
        self._confirming = False
        self._when_known(partial(self._known, applied, self._times))
        self.confirm(())

    def _known(self, applied: Applied, times: int) -> None:
        # A broker that was lost meanwhile is asked again when it is back.
        if self._subscribed and times == self._times:
            self._confirmed(applied)
