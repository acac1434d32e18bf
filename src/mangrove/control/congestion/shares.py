"""How the publishers of a topic share what its contract lets them say (`rate_msg_s`, `rate_bytes_s`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mangrove.control.congestion.fair_level import fair_level
from mangrove.model.congestion.rate_limit import LimitCause, RateLimit

FLOOR = 0.02
"""This part of a rate is shared by all alike, whoever offers nothing: a newcomer is heard at once."""
MARGIN = 0.05
"""Who says less than its share may say so much more than it did, so that noise is not cut off."""


class Offer(NamedTuple):
    """What a publisher would say of a topic in a second: said and withheld."""

    msg_s: float
    bytes_s: float


def fair_shares(rate: float, offered: Mapping[str, float], margin: float = MARGIN) -> dict[str, float]:
    """Parts of a rate for everybody who publishes, max-min fair by what they offer, and all of it in sum.

    Everybody has an equal part of `FLOOR` for certain. The rest goes to those who offer more, up to a level
    at which it is used up; what nobody offers is added to all alike, so that they can say more at once.
    """
    if not offered:
        return {}
    floor = FLOOR * rate / len(offered)
    wants = {name: max(0.0, amount * (1.0 + margin) - floor) for name, amount in offered.items()}
    above = rate - floor * len(offered)
    level = fair_level(above, [*wants.values()])
    shares = {name: floor + min(want, level) for name, want in wants.items()}
    spare = max(0.0, above - sum(min(want, level) for want in wants.values())) / len(offered)
    return {name: share + spare for name, share in shares.items()}


def contract_limits(
    rate_msg_s: float | None, rate_bytes_s: float | None, offers: Mapping[str, Offer]
) -> dict[str, RateLimit]:
    """The limits of everybody who publishes a topic with such a contract; none if it sets no rate."""
    if rate_msg_s is None and rate_bytes_s is None:
        return {}
    messages = bytes_ = None
    if rate_msg_s is not None:
        messages = fair_shares(rate_msg_s, {name: offer.msg_s for name, offer in offers.items()})
    if rate_bytes_s is not None:
        bytes_ = fair_shares(rate_bytes_s, {name: offer.bytes_s for name, offer in offers.items()})
    reason = "its contract" if len(offers) < 2 else f"its contract, shared by {len(offers)} publishers"
    return {
        name: RateLimit(
            msg_s=None if messages is None else messages[name],
            bytes_s=None if bytes_ is None else bytes_[name],
            cause=LimitCause.CONTRACT,
            reason=reason,
        )
        for name in offers
    }
