"""A gateway whose domain has names of its own: what is booked, and what is remembered."""

from __future__ import annotations

import pytest
from tests.kit.attachments import FakeAttachment, Head

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
