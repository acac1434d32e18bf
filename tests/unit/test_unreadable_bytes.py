"""Not all that is wrong with the bytes of others is a DecodeError: who reads them catches all there is."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mangrove"


class _Named(msgspec.Struct):
    name: str


def test_msgspec_raises_another_error_of_text_that_is_no_utf8() -> None:
    with pytest.raises(UnicodeDecodeError):
        msgspec.json.decode(b'{"name":"\xff"}', type=_Named)


def caught(tree: ast.AST) -> list[tuple[int, set[str]]]:
    """What each handler, and each `suppress`, catches."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            found.append((node.lineno, {ast.unparse(kind) for kind in kinds}))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            found.append((node.lineno, {ast.unparse(kind) for kind in node.args}))
    return found


def test_msgspec_raises_another_error_of_values_in_values_without_end() -> None:
    deep = b'{"name":"x","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(RecursionError):
        msgspec.json.decode(deep, type=_Named)


def test_who_catches_one_catches_all() -> None:
    careless = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if "msgspec.DecodeError" in (text := path.read_text()) and path.name != "unreadable.py"
        for line, kinds in caught(ast.parse(text))
        if "msgspec.DecodeError" in kinds
    ]
    assert not careless, "model.unreadable says what there is to be caught"
