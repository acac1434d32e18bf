"""What a gateway does with sealed bodies: at the ends of a way, and in between."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.kit.attachments import message
from tests.kit.engines import engine, federation
from tests.kit.sealing import SealingDomain, domains, frame_of

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.sealing.refusal import Refusal
from mangrove.gateway.sealing.sealed_traffic import TOLD_EVERY_S, SealedTraffic
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sides.data_side import FALSE_ORIGIN

RULES = TopicRules((Contract(match="secret.>", confidential=True), Contract(match="open.>")))
OPEN = 1
SHAPE = federation(("a", "b"), ("b", "c"), topics=RULES)


class Place:
    """One gateway's ledger, engine and traffic."""

    def __init__(self, site: SealingDomain | None, name: str = "") -> None:
        self.engine = engine(SHAPE, site.name if site else name)
        self.ledger = Ledger(self.engine.domain, 1)
        self.traffic = SealedTraffic(self.engine, self.ledger, site.opener if site else None)

    def story(self) -> list[str]:
        return [event.happening.sentence() for event in self.engine.take_events()]


@pytest.fixture
def sites() -> dict[str, SealingDomain]:
    return domains("a", "b", "c")


@pytest.fixture
def sealed(sites: dict[str, SealingDomain]) -> Frame:
    body = message("secret.x", b"1") * 2 + message("secret.y", b"2")
    return sites["a"].sealed(frame_of(sites["a"], body, sites["c"]))


def plain(sites: dict[str, SealingDomain], body: bytes, topic_class: int) -> Frame:
    return replace(frame_of(sites["a"], body, sites["c"]), topic_class=topic_class)


def test_a_destination_opens_and_counts(sites: dict[str, SealingDomain], sealed: Frame) -> None:
    place = Place(sites["c"])
    assert place.traffic.opened(sealed) == message("secret.x", b"1") * 2 + message("secret.y", b"2")
    assert place.traffic.opened(sealed) is None
    assert place.traffic.figures(sealed=4).refused == {Refusal.REPEATED: 1}
    assert (place.traffic.figures().opened, place.traffic.figures(sealed=4).sealed) == (1, 4)
    assert place.ledger.history.totals.malformed_bodies == 1


def test_what_should_have_come_sealed_is_refused(sites: dict[str, SealingDomain]) -> None:
    place = Place(sites["c"])
    assert place.traffic.opened(plain(sites, message("secret.x"), 0)) is None
    assert place.traffic.figures().refused == {Refusal.NOT_SEALED: 1}


def test_other_topics_pass_as_they_are(sites: dict[str, SealingDomain]) -> None:
    place = Place(sites["c"])
    for body in (
        message("open.x"),
        message("other", reply="_MGR.a._INBOX.1"),
        message("open.x") + b"nonsense\r\n",
    ):
        assert place.traffic.opened(plain(sites, body, OPEN)) == body
    assert not place.traffic.figures().refused


def test_the_story_tells_what_was_refused_but_not_too_often(sites: dict[str, SealingDomain]) -> None:
    place = Place(sites["c"])
    forged = plain(sites, message("secret.x"), 0)
    place.traffic.opened(forged)
    place.traffic.tell(100.0)
    for _ in range(3):
        place.traffic.opened(forged)
    place.traffic.tell(100.0 + TOLD_EVERY_S / 2)
    place.traffic.tell(100.0 + TOLD_EVERY_S)
    reason = "not sealed, though its topic is confidential"
    assert place.story() == [
        f"refused a body of secret.> in the name of a: {reason}",
        f"refused 3 bodies of secret.> in the name of a: {reason}",
    ]


@pytest.mark.parametrize("name", ["a", "c"])
def test_ends_book_losses_by_topic(sites: dict[str, SealingDomain], sealed: Frame, name: str) -> None:
    place = Place(sites[name])
    assert place.traffic.messages_in(sealed) == 3
    place.traffic.drop(sealed, "late")
    assert {drop.topic: drop.count for drop in place.ledger.largest_drops(9)} == {
        "secret.x": 2,
        "secret.y": 1,
    }
    assert place.traffic.to_sort_anew(sealed) is not None


@pytest.mark.parametrize("keys", [True, False])
def test_in_between_losses_are_booked_by_contract(
    sites: dict[str, SealingDomain], sealed: Frame, keys: bool
) -> None:
    place = Place(sites["b"] if keys else None, "b")
    assert place.traffic.messages_in(sealed) == 3
    place.traffic.drop(sealed, "queue full")
    assert place.ledger.dropped == {"queue full": 3}
    (drop,) = place.ledger.largest_drops(9)
    assert (drop.topic, drop.count) == ("secret.> (sealed)", 3)
    assert place.ledger.history.totals.dropped.total == 3
    assert place.traffic.to_sort_anew(sealed) is None
    assert place.traffic.figures().turned_back == 1


def test_a_gateway_without_keys_says_so(sites: dict[str, SealingDomain], sealed: Frame) -> None:
    place = Place(None, "c")
    assert place.traffic.opened(sealed) is None
    assert place.traffic.figures().refused == {Refusal.NO_KEYS: 1}


def test_only_what_was_sealed_here_comes_back_in_the_own_name(
    sites: dict[str, SealingDomain], sealed: Frame
) -> None:
    """A gateway on the way may send anything back; it must not leave again in this domain's name."""
    place = Place(sites["a"])
    invented = plain(sites, message("secret.x", groups=("workers",)), 0)
    assert place.traffic.to_sort_anew(invented) == b""
    assert place.traffic.to_sort_anew(replace(sealed, sequence=9)) == b""
    assert place.traffic.figures().refused == {Refusal.NOT_SEALED: 1, Refusal.BROKEN: 1}
    assert place.traffic.to_sort_anew(sealed)


def test_forged_frames_do_not_fill_the_books_with_topics(sites: dict[str, SealingDomain]) -> None:
    place = Place(sites["c"])
    for number in range(50):
        place.traffic.drop(plain(sites, message(f"invented.{number}"), OPEN), FALSE_ORIGIN)
    assert place.ledger.dropped == {FALSE_ORIGIN: 50}
    assert not place.ledger.largest_drops(10)
