"""What a client takes in of what its agent tells, without an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from mangrove.client.management import directory_view
from mangrove.client.management.identity import Identity
from mangrove.client.management.link import ManagementLink
from mangrove.client.management.membership import Member, Membership
from mangrove.model.agents.directory import DirectoryChanges, DirectoryRecord
from mangrove.model.agents.names import directory_changes_subject
from mangrove.model.agents.registration import ClientRole, Wish


class Link:
    """A management broker at which nobody answers, and what is listened to there."""

    domain, user, connected = "here", "", False

    def __init__(self) -> None:
        self.heard: dict[str, Callable[[bytes], None]] = {}

    def listen(self, subject: str, heard: Callable[[bytes], None]) -> None:
        self.heard[subject] = heard

    def open(self, on_connect: Callable[[], None] | None = None) -> None:
        """It never connects."""

    def push(self, *topics: str) -> None:
        records = tuple(
            DirectoryRecord(topic=each, domain="here", epoch=number, edges=("e1",))
            for number, each in enumerate(topics, 1)
        )
        changes = DirectoryChanges(term=1, records=records)
        self.heard[directory_changes_subject("here")](msgspec.json.encode(changes))


class Told:
    """A client to whom the directory is told."""

    def __init__(self) -> None:
        self.records: list[DirectoryRecord] = []

    def directory_changed(self, records: list[DirectoryRecord]) -> None:
        self.records += records


async def test_the_own_topics_of_a_client_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_view, "MAX_RECORDS", 3)
    link, told = Link(), Told()
    membership = Membership(cast("ManagementLink", link), Identity(), "n", cast("Member", told))
    membership.open()
    try:
        for key, role, subject in (
            ("p1", ClientRole.PUBLISHER, "plant.pump"),
            ("s1", ClientRole.SUBSCRIBER, "hall.*"),
            ("s2", ClientRole.SUBSCRIBER, "hall.*"),
            ("s3", ClientRole.SUBSCRIBER, "gone"),
        ):
            membership.add(Wish(key=key, role=role, subject=subject))
        membership.end("s1")
        membership.end("s3")
        link.push(
            "other.1", "other.2", "other.3", "plant.>", "hall.*", "plant.pump", "gone", "hall.1", "plant.*"
        )
        assert set(membership.directory) == {"plant.>", "hall.*", "plant.pump"}
        assert membership.directory.ignored == {"no room": 3}
        given_up = {each.topic for each in told.records if not each.edges}
        assert given_up == {"other.1", "other.2", "other.3"}
    finally:
        await membership.close()
