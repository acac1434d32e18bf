"""What documents settle besides contracts: shown in words, bounded, and given back to each site."""

from __future__ import annotations

import pytest

from mangrove.config import parse_federation
from mangrove.model.federation import Federation
from mangrove.model.versions.checking import content_problem, document_problem
from mangrove.model.versions.document import SETTINGS, WrittenDocument, first_document, in_force
from mangrove.model.versions.settings import MAX_RULES, wanted_settings
from mangrove.model.versions.succession import difference, successor

FILE = """
federation: f
domains: {a: {}, b: {}}
links: [{between: [a, b]}]
security: none
topics: [{match: x}]
"""
MORE = """
limits: {subjects: 5, client: {rate_msg_s: 10}}
transforms: {t: {pick: [id]}}
regions: {coast: {centre: [1, 2], radius_km: 3}}
congestion: {mode: always}
access:
  default: deny
  roles: {crew: [alice]}
  rules: [{who: {role: crew}, may: [publish], subjects: ["x.>"], to: [b]}]
  contracts: [{who: {role: crew}, subjects: ["x.>"]}]
"""


def read(text: str) -> Federation:
    return parse_federation(text, "file").require()


def test_what_changes_is_told_in_words_and_comes_into_force() -> None:
    file, wanted = read(FILE), read(FILE + MORE)
    first = first_document(file)
    settings = wanted_settings(first, file, wanted)
    assert set(settings) == set(SETTINGS)
    second = successor(first, file.topics.contracts, by="", at="", settings=settings)
    assert document_problem(second, first) == ""
    assert list(difference(first, second, file).sentences()) == [
        "limits: subjects 1000000 → 5",
        "limits: client.rate_msg_s None → 10.0",
        "access: default allow → deny",
        "access: role crew has alice",
        "access: new rule: role crew may publish x.> to b",
        "access: new grant: role crew may change contracts of x.>",
        "new transform t",
        "new region coast",
        "congestion: mode congested → always",
    ]
    assert WrittenDocument(text=second.text()).read() == second
    held = in_force(file, second)
    assert all(getattr(held, key) == getattr(wanted, key) for key in SETTINGS)
    assert wanted_settings(second, file, wanted) == {}
    back = successor(second, file.topics.contracts, by="", at="", settings=dict.fromkeys(SETTINGS))
    assert in_force(file, back).access == file.access, "each site keeps to its own file again"
    assert len(difference(second, back).settings) == len(SETTINGS)


def test_a_document_without_settings_leaves_them_to_each_site() -> None:
    file = read(FILE + MORE)
    first = first_document(file)
    second = successor(first, file.topics.contracts[:0], by="", at="")
    assert all(getattr(second, key) is None for key in SETTINGS)
    assert in_force(file, second).limits == file.limits
    assert wanted_settings(second, file, file) == {}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("subjects: 5,", "subjects: 0,", "subjects is 0"),
        ("to: [b]", "to: [c]", "names c, which the federation does not have"),
        ('subjects: ["x.>"], to', 'subjects: ["x..y"], to', "is about no subject"),
        ("who: {role: crew}, may", "who: {role: ghost}, may", "roles that nobody can have: ghost"),
    ],
)
def test_what_would_harm_a_gateway_is_refused_whoever_signed_it(old: str, new: str, problem: str) -> None:
    first = first_document(read(FILE))
    wanted = read(FILE + MORE)
    good = successor(first, (), by="", at="", settings={key: getattr(wanted, key) for key in SETTINGS})
    assert content_problem(good) == ""
    text = good.text().decode()
    swaps = {
        "subjects: 0,": ('"subjects":5', '"subjects":0'),
        "to: [c]": ('"to":["b"]', '"to":["c"]'),
        'subjects: ["x..y"], to': ('"subjects":["x.>"],"to"', '"subjects":["x..y"],"to"'),
        "who: {role: ghost}, may": ('"role":["crew"]', '"role":["ghost"]'),
    }
    before, after = swaps[new]
    assert before in text
    assert problem in content_problem(WrittenDocument(text=text.replace(before, after).encode()).read())


def test_there_are_bounds() -> None:
    wanted = read(FILE + MORE)
    rules = wanted.access.rules * (MAX_RULES + 1)
    import msgspec

    access = msgspec.structs.replace(wanted.access, rules=rules)
    many = successor(first_document(read(FILE)), (), by="", at="", settings={"access": access})
    assert content_problem(many) == "it has too many access rules"


def test_a_contract_may_not_use_what_the_document_withdraws() -> None:
    file = read(FILE.replace("match: x", "match: x, transform: t") + "transforms: {t: {pick: [id]}}\n")
    first = first_document(file)
    gone = successor(first, file.topics.contracts, by="", at="", settings={"transforms": {}})
    assert "transforms that it does not have: t" in document_problem(gone, first)
