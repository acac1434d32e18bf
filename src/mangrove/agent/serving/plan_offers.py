"""Hands the plans in the store to the brain: each once, again when it has changed, and to new leaders."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import nats.errors

from mangrove.control.stimuli import PlanFound, Stimulus
from mangrove.model.plans.packing import MAX_DOCUMENT_BYTES
from mangrove.model.plans.rules import PlanPolicy, PlanRules
from mangrove.store.buckets import Buckets, StoreAwayError
from mangrove.store.offers import OfferReader, offered_plans

log = logging.getLogger(__name__)

LOOK_S = 2.0


class PlanOffers:
    """Follows the store while this agent leads."""

    def __init__(
        self,
        rules: PlanRules,
        buckets: Buckets,
        tell: Callable[[Stimulus], None],
        leads: Callable[[], int],
        refused: Counter[str],
    ) -> None:
        """`leads` gives the term in which this agent leads, or 0."""
        self._looks = rules.policy is not PlanPolicy.MANUAL
        self._buckets = buckets
        self._tell = tell
        self._leads = leads
        self._refused = refused

    async def run(self) -> None:
        """Follow, until cancelled; returns at once where nothing is to be looked for."""
        while self._looks:
            term = self._leads()
            try:
                if term:
                    async with offered_plans(self._buckets) as plans:
                        await self._follow(plans, term)
            except (StoreAwayError, nats.errors.Error, OSError) as error:
                log.debug("plans in the store: %s", error)
            await asyncio.sleep(LOOK_S)

    async def _follow(self, plans: OfferReader, term: int) -> None:
        while self._leads() == term:
            offer = await plans.next(LOOK_S)
            self._refused["plans in the store that are unreadable"] += plans.unreadable
            plans.unreadable = 0
            if offer is None or self._leads() != term:
                continue
            if len(offer.document) > MAX_DOCUMENT_BYTES:
                self._refused["plans that are too large"] += 1
            else:
                self._tell(PlanFound(offer.name, offer.document))
