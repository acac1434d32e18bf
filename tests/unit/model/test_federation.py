"""What a federation says of itself."""

from __future__ import annotations

from typing import Any

from mangrove.model.congestion.terms import Slow
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.mediation.transform import Format, Transform, TransformUse
from mangrove.model.topics import Contract, Late, Mirror, SessionLimits, TopicRules
from mangrove.model.versions.document import first_document


def test_what_can_be_reached_follows_the_links_that_are_up() -> None:
    domains = {name: Domain(name=name, base_port=7000) for name in "abcd"}
    links = tuple(Link(between=pair) for pair in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")))
    ring = Federation(name="ring", domains=domains, links=links)
    assert ring.reachable("a", set()) == {"b", "c", "d"}
    assert ring.reachable("a", {("a", "b")}) == {"b", "c", "d"}
    assert ring.reachable("a", {("a", "b"), ("c", "d")}) == {"d"}
    assert ring.reachable("a", {("a", "b"), ("a", "d")}) == set()


def two_sites(*contracts: Contract, **others: Any) -> Federation:
    return Federation(
        name="pacific",
        domains={name: Domain(name=name, base_port=7000) for name in "ab"},
        links=(Link(between=("a", "b"), delay_ms=5.0),),
        topics=TopicRules(contracts),
        **others,
    )


def test_a_file_has_the_hashes_that_the_release_before_gave_it() -> None:
    """Sites whose hashes differ refuse each other, or each other's changes: what is new counts only for
    those who use it."""
    shape = two_sites(
        Contract(match="alert.>", deadline_ms=150.0, paths=2, separation_km=300.0, late=Late.DROP),
        Contract(match="twice.>", mirror=Mirror.BOTH, limits=SessionLimits(deadline_ms=50.0, paths=2)),
        Contract(match="secret.>", confidential=True, rate_msg_s=10.0, slow=Slow.DISCONNECT),
    )
    assert shape.topology_hash() == "4ea5b77cbe757267d32416b1"
    assert shape.shape_hash() == "a143cf3aae15945c19e15b76"
    assert first_document(shape).digest == "d4873e48a6c2e87d820206ec"


def test_so_has_one_with_transforms() -> None:
    shape = two_sites(
        Contract(match="reading.>", transform=TransformUse(use="compact")),
        transforms={"compact": Transform(encode=Format.MSGPACK)},
    )
    assert shape.topology_hash() == "616289f5a10bfb5715c06588"
    assert shape.shape_hash() == "7af18a7db9c669d3f8d60195"
    assert first_document(shape).digest == "32739e1bb8e5fe4dfba6b0a0"
