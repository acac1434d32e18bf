"""Contract keys that do nothing yet, and separations that cannot be."""

from __future__ import annotations

from mangrove.model.contract_warnings import NOT_IN_FORCE, contract_warnings, federation_warnings
from mangrove.model.federation import Domain, Edge, Federation, Host, Region
from mangrove.model.topics import Contract, Mirror, TopicRules


def test_each_key_that_does_nothing_is_named_with_its_place() -> None:
    rules = TopicRules(
        (
            Contract(match="a.>"),
            Contract(match="b.>", mirror=Mirror.BOTH, durable=True),
            Contract(match="c", durable=True),
        )
    )
    warnings = contract_warnings(rules)
    assert [warning.split(" is ")[0] for warning in warnings] == [
        "topics[1] (b.>): `durable`",
        "topics[2] (c): `durable`",
    ]
    assert contract_warnings(TopicRules()) == ()


def test_a_domain_without_a_second_broker_for_mirrors_is_named() -> None:
    edge = Edge()
    apart = (Host(name="h1", address="", brokers=("head",)), Host(name="h2", address="", brokers=("edge1",)))
    domains = {
        "one": Domain(name="one", base_port=1, edges=(edge,)),
        "two": Domain(name="two", base_port=1, edges=(edge, edge)),
        "together": Domain(
            name="together",
            base_port=1,
            edges=(edge, edge),
            hosts=(apart[0], Host(name="h2", address="", brokers=("edge1", "edge2"))),
        ),
        "apart": Domain(
            name="apart",
            base_port=1,
            edges=(edge, edge),
            hosts=(*apart, Host(name="h3", address="", brokers=("edge2",))),
        ),
    }
    rules = TopicRules((Contract(match="a"), Contract(match="b.>", mirror=Mirror.STANDBY)))
    assert federation_warnings(Federation(name="f", domains=domains, topics=rules)) == (
        "topics[1] (b.>): `mirror`: no second broker in one: it takes two edges",
        "topics[1] (b.>): `mirror`: no second broker in together: all edges are on one host",
    )


def test_the_table_names_keys_that_exist() -> None:
    assert set(NOT_IN_FORCE) <= set(Contract.__struct_fields__)


def placed(*contracts: Contract, **places: tuple[float, float] | None) -> Federation:
    return Federation(
        name="places",
        domains={name: Domain(name=name, base_port=1, location=place) for name, place in places.items()},
        topics=TopicRules(contracts),
        regions={"coast": Region(centre=(0.0, 0.0), radius_km=100)},
    )


def test_a_site_in_or_near_a_region_to_keep_away_from_is_named() -> None:
    apart = Contract(match="x", separation_km=200, apart_from=("coast",))
    federation = placed(apart, Contract(match="y"), a=(0.0, 0.5), b=(0.0, 2.5), c=(0.0, 9.0))
    assert federation_warnings(federation) == (
        "topics[0] (x): no path can keep 200 km from region coast at a, b: nearer already",
    )


def test_distances_need_places() -> None:
    federation = placed(Contract(match="x", paths=2, separation_km=200), a=(0.0, 0.5), b=None)
    assert federation_warnings(federation) == (
        "topics[0] (x): `separation_km` is not kept: there is no location of b",
    )
    assert federation_warnings(placed(Contract(match="x", paths=2), a=None)) == ()
