"""Transforms in federation files, and contracts that name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.config import parse_federation
from mangrove.config.contract_text import checked_contracts
from mangrove.errors import InvalidDocumentError
from mangrove.model.mediation.transform import Format, Place, Transform, TransformUse

BASE = """
federation: f
domains: {a: {}, b: {}}
links: [{between: [a, b]}]
"""
GOOD = f"""{BASE}
transforms:
  compact: {{encode: msgpack, time_ms: 50}}
  severe: {{keep: "severity > `2`", pick: [id], rename: {{id: number}}}}
topics:
  - {{match: "x.>", transform: compact}}
  - {{match: "y.>", transform: {{use: severe, at: sending}}, confidential: true}}
"""


def mistakes(text: str, directory: Path | None = None) -> dict[str, str]:
    return {
        each.path: f"{each.problem} ({each.allowed})"
        for each in parse_federation(text, "f", directory).mistakes
    }


def test_a_contract_names_a_transform_and_where() -> None:
    federation = parse_federation(GOOD, "f").require()
    assert federation.transforms["compact"] == Transform(encode=Format.MSGPACK, time_ms=50.0)
    assert [each.transform for each in federation.topics.contracts] == [
        TransformUse(use="compact"),
        TransformUse(use="severe", at=Place.SENDING),
    ]


def test_a_stylesheet_is_read_and_compiled(tmp_path: Path) -> None:
    text = f"{BASE}\ntransforms: {{cap: {{xslt: cap.xsl}}}}\n"
    assert "No such file" in mistakes(text, tmp_path)["transforms.cap.xslt"]
    (tmp_path / "cap.xsl").write_text("<a/>")
    assert "not a stylesheet" in mistakes(text, tmp_path)["transforms.cap.xslt"]
    sheet = '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"/>'
    (tmp_path / "cap.xsl").write_text(sheet)
    federation = parse_federation(text, "f", tmp_path).require()
    assert federation.transforms["cap"].stylesheet == sheet
    (tmp_path / "cap.xsl").write_text(sheet + " " * (256 << 10))
    assert "is larger than" in mistakes(text, tmp_path)["transforms.cap.xslt"]


@pytest.mark.parametrize(
    ("described", "place", "word"),
    [
        ("{}", "", "does nothing"),
        ('{keep: "a ["}', ".keep", "no JMESPath expression"),
        ('{keep: "a", function: "json:dumps"}', "", "do not go together"),
        ('{xslt: a.xsl, function: "json:dumps"}', "", "do not go together"),
        ('{function: "nowhere_at_all:f"}', ".function", "no module 'nowhere_at_all'"),
        ("{function: unheard-of}", ".function", "no entry point 'unheard-of'"),
        ('{function: "json:nothing"}', ".function", "no function 'nothing'"),
        ("{rename: {a: x, b: x}}", ".rename", "the same name"),
        ("{encode: xml}", ".encode", "found 'xml'"),
        ("{keep: a, time_ms: 0}", ".time_ms", "found 0"),
        ("{keep: a, colour: red}", ".colour", "unknown key"),
    ],
)
def test_bad_transforms(described: str, place: str, word: str) -> None:
    assert word in mistakes(f"{BASE}\ntransforms: {{t: {described}}}\n")[f"transforms.t{place}"]


@pytest.mark.parametrize(
    ("contract", "place", "word"),
    [
        ("transform: other", "topics[0].transform", "there is no transform 'other' (t)"),
        ("transform: {use: t, at: moon}", "topics[0].transform.at", "found 'moon'"),
        ("transform: {at: sending}", "topics[0].transform.use", "is missing"),
        ("transform: t, scope: domain", "topics[0].transform", "stays in its domain"),
        ("transform: t, mirror: true", "topics[0].transform", "mirrored"),
    ],
)
def test_contracts_that_can_have_no_transform(contract: str, place: str, word: str) -> None:
    text = f'{BASE}\ntransforms: {{t: {{keep: a}}}}\ntopics: [{{match: "x", {contract}}}]\n'
    assert word in mistakes(text)[place]


def test_a_contract_that_is_set_alone_is_checked_against_the_transforms_that_there_are() -> None:
    federation = parse_federation(GOOD, "f").require()
    contracts = checked_contracts(
        federation, federation.topics.contracts, {"match": "x.>", "transform": "severe"}
    )
    assert contracts[0].transform == TransformUse(use="severe")
    with pytest.raises(InvalidDocumentError, match="there is no transform 'other'"):
        checked_contracts(federation, federation.topics.contracts, {"match": "x.>", "transform": "other"})


def test_who_has_other_transforms_has_another_file() -> None:
    """A running federation may change them; sites begin with the same."""
    one = parse_federation(GOOD, "f").require()
    other = parse_federation(GOOD.replace("> `2`", "> `3`"), "f").require()
    assert one.topology_hash() != other.topology_hash()
    assert one.shape_hash() != other.shape_hash()
