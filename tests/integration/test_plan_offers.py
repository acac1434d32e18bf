"""Plans in the store: pipelines on other machines leave them there, and whoever leads is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.management_broker import ManagementBroker, management_broker
from tests.kit.waiting import eventually

from mangrove.agent.serving.plan_offers import PlanOffers
from mangrove.control.stimuli import PlanFound, Stimulus
from mangrove.errors import InputError
from mangrove.model.plans.rules import PlanPolicy, PlanRules
from mangrove.store import offers as offers_module
from mangrove.store.buckets import OFFERS, Buckets
from mangrove.store.offers import PlanOffer, offer_plan, withdraw_plan


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[ManagementBroker]:
    async with management_broker(tmp_path) as running:
        yield running


class Leader:
    """What an agent is told, while it leads."""

    def __init__(self, buckets: Buckets, policy: PlanPolicy = PlanPolicy.PROPOSE) -> None:
        self.told: list[Stimulus] = []
        self.term = 0
        self.refused: Counter[str] = Counter()
        self.offers = PlanOffers(
            PlanRules(policy=policy), buckets, self.told.append, lambda: self.term, self.refused
        )

    async def hears(self, *expected: PlanFound) -> None:
        async def told() -> bool:
            return self.told == list(expected)

        await eventually(told, f"{expected} should be told")


async def test_every_leader_is_told_of_what_is_offered_and_of_what_comes(broker: ManagementBroker) -> None:
    buckets = Buckets(await broker.connect())
    await offer_plan(buckets, PlanOffer(name="a plan.json", document=b"1"))
    leader = Leader(Buckets(await broker.connect()))
    task = asyncio.create_task(leader.offers.run())
    try:
        assert leader.told == [], "it does not lead"
        leader.term = 1
        await leader.hears(PlanFound("a plan.json", b"1"))
        await offer_plan(buckets, PlanOffer(name="a plan.json", document=b"2"))
        await offer_plan(buckets, PlanOffer(name="b.json", document=b"3"))
        heard = [PlanFound("a plan.json", b"1"), PlanFound("a plan.json", b"2"), PlanFound("b.json", b"3")]
        await leader.hears(*heard)
        await (await buckets.bucket(OFFERS)).put("odd", b"no plan")
        await withdraw_plan(buckets, "b.json")
        await leader.hears(*heard)
        leader.told.clear()
        leader.term = 2
        await leader.hears(PlanFound("a plan.json", b"2"))
        assert leader.refused["plans in the store that are unreadable"] >= 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nobody_looks_where_the_policy_is_manual(broker: ManagementBroker) -> None:
    leader = Leader(Buckets(await broker.connect()), PlanPolicy.MANUAL)
    async with asyncio.timeout(5):
        await leader.offers.run()


async def test_the_store_holds_a_bounded_number(
    broker: ManagementBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers_module, "MAX_OFFERS", 2)
    buckets = Buckets(await broker.connect())
    for name in ("a", "b"):
        await offer_plan(buckets, PlanOffer(name=name, document=b"1"))
    with pytest.raises(InputError, match="2 plans"):
        await offer_plan(buckets, PlanOffer(name="c", document=b"1"))
    await offer_plan(buckets, PlanOffer(name="a", document=b"2"))
    await withdraw_plan(buckets, "b")
    await offer_plan(buckets, PlanOffer(name="c", document=b"1"))
