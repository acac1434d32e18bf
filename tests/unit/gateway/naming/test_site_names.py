"""A gateway whose domain has names of its own: what is booked, and what is remembered."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.attachments import FakeAttachment, Head, message

from mangrove.broker.attachment import AttachmentOwner
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.model.names.mapping import Direction, NameMapping
from mangrove.model.selectors.group_names import selecting_group
from mangrove.model.selectors.selector import Selector

MAPPINGS = [
    NameMapping(local="plant.>", federation="site.oslo.>"),
    NameMapping(local="weather", federation="met.oslo", direction=Direction.IN),
    NameMapping(local="alarm", federation="alert.oslo", direction=Direction.OUT),
]


class Renamed:
    """A head connection behind names, and its broker."""

    def __init__(self) -> None:
        self.site = SiteNames(MAPPINGS)
        self.head = Head(names=self.site, attach=self._attach)

    def _attach(self, owner: AttachmentOwner) -> FakeAttachment:
        self.broker = FakeAttachment(owner)
        return self.broker


@pytest.mark.parametrize(
    ("local", "booked"),
    [
        ("plant.hall", {"site.oslo.hall": 3}),
        ("weather", {"met.oslo": 3}),
        ("alarm", {"alert.oslo": 3}),
        ("other", {"other": 3}),
        ("", {}),
        ("site.oslo.hall", {}),
        ("*.hall", {}),
    ],
)
async def test_what_the_broker_could_not_hand_over_is_booked_by_the_federations_name(
    local: str, booked: dict[str, int]
) -> None:
    renamed = Renamed()
    renamed.broker.owner.undelivered("no room", 3, local)
    assert renamed.head.ledger.dropped == {"no room": 3}
    assert dict(renamed.head.ledger.history.totals.dropped.topics) == booked


async def test_subscribers_that_came_and_went_leave_nothing_behind() -> None:
    """Each that selects is a group of its own name: of a hundred thousand nothing may stay."""
    renamed = Renamed()
    selector = Selector("severity >= 3")
    renamed.broker.subscribers(("plant.hall", "workers", True))
    for number in range(1000):
        group = selecting_group(f"tag{number}", selector)
        renamed.broker.subscribers(("plant.*", group, True))
        assert renamed.site.served("site.oslo.hall", (group, "workers")) == (group, "workers")
        renamed.broker.subscribers(("plant.*", group, False), ("plant.never", "unknown", False))
        assert renamed.site.served("site.oslo.hall", (group, "workers")) == ("workers",)
    assert list(renamed.site._groups) == ["workers"]


async def settled(renamed: Renamed) -> None:
    """Let all be translated anew."""
    for _ in range(20):
        await asyncio.sleep(0)


async def rename(renamed: Renamed, mappings: list[NameMapping]) -> None:
    await renamed.head.connection.before_names_change()
    renamed.site.change(mappings)
    renamed.head.connection.names_changed(b"")
    await settled(renamed)


async def test_what_is_called_as_before_stays_subscribed_to_and_the_rest_moves() -> None:
    renamed = Renamed()
    renamed.broker.owner.attached()
    renamed.head.wanted_by("b", "site.oslo.hall", "other.>")
    renamed.broker.subscribers(("plant.light", "", True), ("same", "", True))
    assert {"plant.hall", "other.>"} <= set(renamed.broker.subscribed)
    await rename(renamed, [NameMapping(local="works.>", federation="site.oslo.>")])
    assert {"works.hall", "other.>"} <= set(renamed.broker.subscribed)
    assert renamed.broker.ended == ["plant.hall"]
    assert {each.partition(" ")[0] for each in renamed.head.interest[-1][0]} == {"plant.light"}
    renamed.head.after(60.0)
    assert {each.partition(" ")[0] for each in renamed.head.interest[-1][1]} == {"site.oslo.light"}
    # From the next buffer on, lines have the new names.
    renamed.broker.publish(message("plant.hall"), message("works.hall"))
    assert renamed.head.messages_out() == [message("site.oslo.hall")]
    await rename(renamed, [])
    renamed.broker.publish(message("works.hall"), message("site.oslo.hall", b"y"))
    assert renamed.head.messages_out()[-1] == message("site.oslo.hall", b"y")


async def test_a_broker_that_is_lost_meanwhile_is_told_all_by_the_new_names() -> None:
    renamed = Renamed()
    renamed.broker.owner.attached()
    renamed.head.wanted_by("b", "site.oslo.hall")
    renamed.broker.owner.lost("gone")
    await rename(renamed, [NameMapping(local="works.>", federation="site.oslo.>")])
    renamed.broker.subscribed.clear()
    renamed.broker.owner.attached()
    await settled(renamed)
    assert "works.hall" in renamed.broker.subscribed
    assert "plant.hall" not in renamed.broker.subscribed


async def test_members_of_before_are_known_when_names_come() -> None:
    renamed = Renamed()
    renamed.site.change([])
    renamed.broker.owner.attached()
    renamed.broker.subscribers(("plant.*", "workers", True), ("plant.hall", "others", True))
    renamed.broker.subscribers(("plant.hall", "others", False))
    await rename(renamed, MAPPINGS)
    assert renamed.site.served("site.oslo.hall", ("workers", "others")) == ("workers",)
