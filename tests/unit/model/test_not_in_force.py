"""Contract keys that are accepted and do nothing yet."""

from __future__ import annotations

from mangrove.model.not_in_force import NOT_IN_FORCE, contract_warnings
from mangrove.model.topics import Contract, TopicRules


def test_each_key_that_does_nothing_is_named_with_its_place() -> None:
    rules = TopicRules(
        (
            Contract(match="a.>"),
            Contract(match="b.>", mirror=True, durable=True),
            Contract(match="c", durable=True),
        )
    )
    warnings = contract_warnings(rules)
    assert [warning.split(" is ")[0] for warning in warnings] == [
        "topics[1] (b.>): `mirror`",
        "topics[1] (b.>): `durable`",
        "topics[2] (c): `durable`",
    ]
    assert contract_warnings(TopicRules()) == ()


def test_the_table_names_keys_that_exist() -> None:
    assert set(NOT_IN_FORCE) <= set(Contract.__struct_fields__)
