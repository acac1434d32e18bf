"""What transforms make of payloads, and which of them cannot be made."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.kit.odd_functions import importable

from mangrove.mediation.functions import function_problem
from mangrove.mediation.transformation import TransformError, UnfitMessageError, made
from mangrove.model.mediation.transform import Format, Transform

SHEET = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text"/><xsl:template match="/a"><xsl:value-of select="b"/></xsl:template>
</xsl:stylesheet>"""
SECRET = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a><b>&x;</b></a>'


def result(transform: Transform, payload: bytes) -> bytes | None:
    return made(transform)(payload, "a.b", {})


def test_json_becomes_messagepack_and_the_reverse() -> None:
    document = {"a": [1, 2.5, None, True, "ü"], "b": {}}
    packed = result(Transform(encode=Format.MSGPACK), json.dumps(document).encode())
    assert packed is not None
    assert msgspec.msgpack.decode(packed) == document
    back = result(Transform(decode=Format.MSGPACK, encode=Format.JSON), packed)
    assert back is not None
    assert json.loads(back) == document


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ("severity >= `3`", True),
        ("severity > `4`", False),
        ("nothing", False),
        ("''", False),
        ("`0`", True),
        ("`[]`", False),
        ("place == 'north' && !muted", True),
    ],
)
def test_messages_are_kept_by_an_expression(keep: str, kept: bool) -> None:
    payload = b'{"severity": 4, "place": "north"}'
    assert result(Transform(keep=keep), payload) == (b'{"severity":4,"place":"north"}' if kept else None)


def test_fields_are_selected_picked_and_renamed_in_this_order() -> None:
    transform = Transform(
        select="{id: id, level: reading.level, more: `1`}", pick=("level", "id"), rename={"level": "height"}
    )
    payload = b'{"id": 7, "reading": {"level": 2}}'
    assert result(transform, payload) == b'{"height":2,"id":7}'


@pytest.mark.parametrize(
    ("transform", "payload", "word"),
    [
        (Transform(encode=Format.MSGPACK), b"{", "not json"),
        (Transform(encode=Format.MSGPACK), b"\xff\xfe", "not json"),
        (Transform(decode=Format.MSGPACK), b"\xc1", "not msgpack"),
        (Transform(pick=("a",)), b"[1]", "a document with fields"),
        (Transform(rename={"a": "b"}), b'{"a": 1, "b": 2}', "another field has already"),
        (Transform(keep="abs(a)"), b'{"a": "x"}', "`keep` cannot be applied"),
        (
            Transform(decode=Format.MSGPACK, encode=Format.JSON),
            msgspec.msgpack.encode(msgspec.msgpack.Ext(5, b"x")),
            "cannot be written as json",
        ),
        (Transform(stylesheet=SHEET), b"<a", "not XML"),
        (Transform(stylesheet=SHEET), b"", "not XML"),
        (Transform(stylesheet=SHEET), SECRET.encode(), "a document type of its own"),
    ],
)
def test_payloads_that_are_unfit(transform: Transform, payload: bytes, word: str) -> None:
    with pytest.raises(UnfitMessageError, match=word):
        result(transform, payload)


def test_a_stylesheet_reads_nothing_but_the_message() -> None:
    assert result(Transform(stylesheet=SHEET), b"<a><b>hi</b></a>") == b"hi"
    reader = SHEET.replace('select="b"', "select=\"document('file:///etc/passwd')\"")
    with pytest.raises(UnfitMessageError, match="denied"):
        result(Transform(stylesheet=reader), b"<a/>")


@pytest.mark.parametrize(
    ("transform", "key", "word"),
    [
        (Transform(keep="a ["), "keep", "no JMESPath"),
        (Transform(select="{a"), "select", "no JMESPath"),
        (Transform(stylesheet="<a"), "xslt", "no stylesheet"),
        (Transform(stylesheet="<a/>"), "xslt", "not a stylesheet"),
        (
            Transform(stylesheet=SHEET.replace("<xsl:output", '<xsl:import href="x"/><xsl:output')),
            "xslt",
            "takes in no other files",
        ),
        (Transform(function="no_such_module_here:f"), "function", "cannot be imported"),
        (Transform(function="json:no_such_function"), "function", "no function"),
        (Transform(function="nobody"), "function", "no entry point"),
        (Transform(keep="(" * 4000 + "a" + ")" * 4000), "keep", "nested too deeply"),
        (Transform(function="a b:c"), "function", "is not `module:function`"),
    ],
)
def test_transforms_that_cannot_be_made(transform: Transform, key: str, word: str) -> None:
    with pytest.raises(TransformError, match=word) as raised:
        made(transform)
    assert raised.value.key == key


def test_functions_are_found_without_being_imported(tmp_path: Path) -> None:
    """A module that would end the process is looked into all the same."""
    (tmp_path / "fatal_module.py").write_text("import os\nos._exit(9)\ndef f(a, b, c): ...\n")
    with importable(tmp_path) as module:
        assert function_problem(f"{module}:obedient") == ""
        assert function_problem("fatal_module:f") == ""
        assert "no function 'g'" in function_problem("fatal_module:g")
        assert "no module 'fatal_modul'" in function_problem("fatal_modul:f")
        assert "no entry point" in function_problem("unheard-of")
    assert function_problem("mangrove.mediation.functions:unchanged") == ""
    assert "no module 'mangrove.nowhere'" in function_problem("mangrove.nowhere:f")
