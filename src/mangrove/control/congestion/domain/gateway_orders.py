"""Publishers of other domains: what comes from them through the gateway, and how much of it may.

What the gateway delivers is known topic by topic; once a topic is limited, the gateway tells what was offered
of it by origin, and each can be limited by its own usefulness.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mangrove.control.instructions import Instruction, LimitGateway
from mangrove.control.load.plausibility import rate_problem
from mangrove.model.agents.usefulness import GatewayLimited, GatewayLimits
from mangrove.model.congestion.rate_limit import RateLimit

ASK_S = 1.0
"""While something is limited, the gateway is told and asked so often."""
OTHERS = "*"
"""All origins that are not named."""
EPOCH_BITS = 32
DELIVERED_S = 10.0
"""For so long a count of what was delivered is believed."""
MAX_ORIGINS = 20
"""Of a topic, that are limited one by one; the others are limited together."""
MAX_TOPICS = 2_000
NEW = 0.7


class Foreign(NamedTuple):
    """What publishers of other domains offer of a topic, by origin or together."""

    origin: str
    offered_msg_s: float
    said_msg_s: float
    size_bytes: float
    """0: not known."""


class GatewayOrders:
    """Limits on what enters the domain, and what is known of it."""

    def __init__(self, term: int) -> None:
        self.refused: Counter[str] = Counter()
        self._term = term
        self._count = 0
        self._epoch = 0
        self._limits: dict[str, dict[str, RateLimit]] = {}
        self._known_epoch = 0
        self._ask_at = math.inf
        self._delivered: dict[str, float] = {}
        """Messages a second, by topic."""
        self._delivered_at = -math.inf
        self._offered: dict[str, dict[str, tuple[float, float]]] = {}
        """Messages and bytes a second, by topic that is limited, and origin."""

    def counted(self, span_s: float, delivered: Mapping[str, int], now: float) -> None:
        """The gateway has told what it delivered."""
        if not 0.0 < span_s < math.inf:
            return
        old = self._delivered if now < self._delivered_at + DELIVERED_S else {}
        new = {topic: count / span_s for topic, count in delivered.items() if count > 0}
        self._delivered = {
            topic: rate
            for topic in {*old, *new}
            if (rate := NEW * new.get(topic, 0.0) + (1.0 - NEW) * old.get(topic, new.get(topic, 0.0))) > 0.05
        }
        self._delivered_at = now

    def answered(self, answer: GatewayLimited, span_s: float) -> None:
        """The gateway has taken limits, and tells what it was offered of what is limited."""
        self._known_epoch = answer.epoch
        if not 0.0 < span_s < math.inf:
            return
        offered: dict[str, dict[str, tuple[float, float]]] = {}
        for topic in self._limits:
            before = self._offered.get(topic, {})
            rates: dict[str, tuple[float, float]] = {}
            for origin, (messages, size_bytes) in answer.offered.get(topic, {}).items():
                if messages < 0 or size_bytes < 0 or rate_problem(messages / span_s, size_bytes / span_s):
                    self.refused["impossible offer at the gateway"] += 1
                    continue
                old = before.get(origin, (messages / span_s, size_bytes / span_s))
                rates[origin] = (
                    NEW * messages / span_s + (1.0 - NEW) * old[0],
                    NEW * size_bytes / span_s + (1.0 - NEW) * old[1],
                )
            offered[topic] = rates
        self._offered = offered

    def topics(self, now: float) -> Iterable[str]:
        """Topics that come from other domains."""
        delivered = self._delivered if now < self._delivered_at + DELIVERED_S else {}
        return {*delivered, *self._offered}

    def offers(self, topic: str, now: float) -> list[Foreign]:
        """Who offers a topic from elsewhere, as far as is known: the busiest by name, the rest together."""
        delivered = self._delivered.get(topic, 0.0) if now < self._delivered_at + DELIVERED_S else 0.0
        offered = self._offered.get(topic)
        if not offered:
            return [Foreign(OTHERS, delivered, delivered, 0.0)] if delivered else []
        ranked = sorted(offered.items(), key=lambda each: (-each[1][0], each[0]))
        named = [each for each in ranked if each[0] != OTHERS][:MAX_ORIGINS]
        total = sum(rate[0] for rate in offered.values())
        through = min(1.0, delivered / total) if total else 1.0
        found = [_foreign(origin, *rate, through) for origin, rate in named if rate[0] > 0.0]
        rest = [rate for origin, rate in ranked if all(origin != name for name, _ in named)]
        if rest:
            found.append(
                _foreign(OTHERS, sum(rate[0] for rate in rest), sum(rate[1] for rate in rest), through)
            )
        return found

    def set(self, limits: Mapping[str, Mapping[str, RateLimit]], now: float) -> list[Instruction]:
        """These are all limits at the gateway from now on."""
        if len(limits) > MAX_TOPICS:
            self.refused["limits beyond those that a gateway is told"] += len(limits) - MAX_TOPICS
            limits = dict(list(limits.items())[:MAX_TOPICS])
        wanted = {topic: dict(origins) for topic, origins in limits.items()}
        if wanted == self._limits:
            return []
        self._limits = wanted
        self._count += 1
        self._epoch = self._term << EPOCH_BITS | self._count
        return self._ask(now)

    def timer(self) -> float:
        """When the gateway is told again."""
        return self._ask_at

    def handle_timer(self, now: float) -> list[Instruction]:
        """Tell it again, until nothing is limited and it has said that it knows."""
        if now < self._ask_at:
            return []
        if not self._limits and self._known_epoch == self._epoch:
            self._ask_at = math.inf
            self._offered = {}
            return []
        return self._ask(now)

    def _ask(self, now: float) -> list[Instruction]:
        self._ask_at = now + ASK_S
        return [LimitGateway(GatewayLimits(term=self._term, epoch=self._epoch, limits=self._limits))]


def _foreign(origin: str, messages_s: float, bytes_s: float, through: float) -> Foreign:
    size = bytes_s / messages_s if messages_s > 0.0 else 0.0
    return Foreign(origin, messages_s, messages_s * through, size)
