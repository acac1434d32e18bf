"""Plans that pipelines on other machines leave in the store, each under a name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import nats.errors
from nats.js import JetStreamContext

from mangrove.errors import InputError
from mangrove.model.unreadable import UNREADABLE
from mangrove.store.buckets import OFFERS, Buckets, bounded, is_value
from mangrove.store.keys import store_key

MAX_OFFERS = 64
MAX_NAME_LENGTH = 100
OFFER_S = 5.0


class PlanOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A plan's document, compressed or not, and what it is called."""

    name: str
    document: bytes


_decoder = msgspec.msgpack.Decoder(PlanOffer)


async def offer_plan(buckets: Buckets, offer: PlanOffer) -> None:
    """Leave a plan for whoever leads; one of the same name is replaced."""
    async with bounded("take a plan", OFFER_S):
        bucket = await buckets.bucket(OFFERS)
        key = store_key(offer.name)
        known = await bucket.keys() if (await bucket.status()).values else []
        if len(known) >= MAX_OFFERS and key not in known:
            raise InputError(
                f"there are {len(known)} plans in the store already",
                hint="withdraw one: mangrove plan offer NAME --withdraw",
            )
        await bucket.put(key, msgspec.msgpack.encode(offer))


async def withdraw_plan(buckets: Buckets, name: str) -> None:
    """Take a plan out of the store again. What came of it stays in force."""
    async with bounded("withdraw a plan", OFFER_S):
        await (await buckets.bucket(OFFERS)).purge(store_key(name))


@asynccontextmanager
async def offered_plans(buckets: Buckets) -> AsyncIterator[OfferReader]:
    """All plans in the store, and then those that come."""
    async with bounded("tell its plans", OFFER_S):
        await buckets.bucket(OFFERS)
    async with buckets.follow(OFFERS) as subscription:
        yield OfferReader(subscription)


class OfferReader:
    """Reads one plan after the other."""

    def __init__(self, subscription: JetStreamContext.PushSubscription) -> None:
        self._subscription = subscription
        self.unreadable = 0
        """Values that are no plans."""

    async def next(self, timeout_s: float) -> PlanOffer | None:
        """The next plan; None if none comes in time."""
        try:
            message = await self._subscription.next_msg(timeout=timeout_s)
        except nats.errors.TimeoutError:
            return None
        if not is_value(message):
            return None
        try:
            return _decoder.decode(message.data)
        except UNREADABLE:
            self.unreadable += 1
            return None
