"""What brokers do not let a connection publish: its publishers are told, and the subject rests for a while.

A broker says so only after it has got the message, so the first is sent in vain. From then on publishing on
that subject is an error at once; now and then one message is tried again, because rules change.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from mangrove.broker.client_connection import Denial, NotAllowedError, Outlet
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.model.shared_names import MIRROR_PREFIX

REST_S = 1.0
MAX_COUNTED = 1_000
MAX_RESTING = 10_000


class _NoOutlet:
    """Takes the place of the outlet of a subject that rests."""

    def __init__(self, outlet: Outlet, denials: PublishingDenials, subject: str) -> None:
        self.instead_of = outlet
        self.messages = outlet.messages
        self.size_bytes = outlet.size_bytes
        self._denials = denials
        self._subject = subject

    def publish(self, payload: bytes, first: int, second: int) -> None:
        """Nothing is sent."""
        self._denials.check(self._subject)


class PublishingDenials:
    """Those of one connection, at all its brokers."""

    def __init__(self, outlets: PublishFilter) -> None:
        self.counts: Counter[str] = Counter()
        """How often each thing was not allowed, subscriptions included; bounded."""
        self._filter = outlets
        self._resting: dict[str, NotAllowedError] = {}
        self._untold: dict[str, NotAllowedError] = {}
        """What was refused after its publisher had gone on."""
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def note(self, denial: Denial) -> None:
        """A broker did not allow something."""
        what = str(denial)
        self.counts[what if what in self.counts or len(self.counts) < MAX_COUNTED else "other"] += 1
        subject = denial.subject
        if not denial.publishing or not subject or subject.startswith(MIRROR_PREFIX):
            return  # what goes to a mirror goes to the primary as well, and is told from there
        if len(self._untold) < MAX_COUNTED:
            self._untold[subject] = denial.error
        if subject in self._resting or len(self._resting) >= MAX_RESTING:
            return
        self._resting[subject] = denial.error
        outlet = self._filter.outlet(subject)
        if outlet is not None and not isinstance(outlet, _NoOutlet):
            self._filter.replace(subject, _NoOutlet(outlet, self, subject))
        self._timers[subject] = asyncio.get_running_loop().call_later(REST_S, self._try_again, subject)

    def check(self, subject: str) -> None:
        """NotAllowedError while a subject rests."""
        error = self._resting.get(subject)
        if error is not None:
            self.told(subject)
            raise error.again()

    def told(self, subject: str) -> None:
        """Whoever published there knows."""
        self._untold.pop(subject, None)

    def tell(self) -> None:
        """NotAllowedError if something was refused that nobody has been told of."""
        if not self._untold:
            return
        errors, self._untold = list(self._untold.values()), {}
        raise errors[0].again(len(errors) - 1)

    def _try_again(self, subject: str) -> None:
        self._timers.pop(subject, None)
        self._resting.pop(subject, None)
        outlet = self._filter.outlet(subject)
        if isinstance(outlet, _NoOutlet):
            self._filter.replace(subject, outlet.instead_of)

    def close(self) -> None:
        """Wait for nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
