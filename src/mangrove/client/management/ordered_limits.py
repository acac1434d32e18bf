"""The limits that a client's agent has set it: believed if they make sense, and only for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from mangrove.model.agents.registration import MAX_WISHES
from mangrove.model.agents.usefulness import LIMITS_VALID_S, LimitsOrdered
from mangrove.model.congestion.rate_limit import RateLimit, is_rate

Put = Callable[[Mapping[str, RateLimit]], None]
"""Puts limits into force: these, and no others."""


class OrderedLimits:
    """What is in force; a client whose agent is gone is free again after a while."""

    def __init__(self) -> None:
        self._put: Put = _nowhere
        self._latest = (0, 0)
        self._lapse: asyncio.TimerHandle | None = None
        self.epoch = 0
        """Of what is in force; 0 if nothing is."""

    def begin(self, put: Put) -> None:
        """From here on limits can be put into force."""
        self._put = put

    def ordered(self, order: LimitsOrdered) -> str:
        """Take an order; why not, or an empty string."""
        if len(order.limits) > MAX_WISHES or order.epoch <= 0:
            return "impossible figures"
        if not all(is_rate(each.msg_s) and is_rate(each.bytes_s) for each in order.limits.values()):
            return "impossible figures"
        if (order.term, order.epoch) < self._latest:
            return "older limits"
        self._latest = order.term, order.epoch
        self.epoch = order.epoch
        self.close()
        self._lapse = asyncio.get_running_loop().call_later(LIMITS_VALID_S, self._lapsed)
        self._put(order.limits)
        return ""

    def _lapsed(self) -> None:
        self._lapse = None
        self.epoch = 0
        self._put({})

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None


def _nowhere(limits: Mapping[str, RateLimit]) -> None:
    """There is no connection yet."""
