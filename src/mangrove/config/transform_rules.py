"""Transforms of a federation file: each of one kind, and one that can be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mangrove.config.document.transforms import TransformDocument
from mangrove.errors import Mistake
from mangrove.mediation.documents import expression
from mangrove.mediation.functions import function_problem
from mangrove.mediation.transformation import TransformError
from mangrove.model.mediation.transform import Transform

MAX_STYLESHEET_BYTES = 256 << 10
DOCUMENT_KEYS = ("decode", "encode", "keep", "select", "pick", "rename")
FUNCTION_REMEDY = "a function that every gateway can import: install its package, or set PYTHONPATH"


@dataclass(slots=True)
class Stylesheets:
    """The texts of the stylesheets that transforms name, and what is wrong with transforms."""

    texts: dict[str, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)


def read_transforms(raw: Any, directory: Path) -> Stylesheets:
    """Check the transforms of a federation file in raw form, and read the files that they name."""
    found = Stylesheets()
    for name, described in _mapping(_mapping(raw).get("transforms")).items():
        where = f"transforms.{name}"
        if not isinstance(described, dict):
            continue  # reported where it stands
        found.mistakes += _kind_mistakes(where, described)
        for key in ("keep", "select"):
            text = described.get(key)
            if isinstance(text, str) and text:
                found.mistakes += _tried(where, lambda key=key, text=text: expression(key, text))
        if isinstance(described.get("function"), str) and (
            problem := function_problem(described["function"])
        ):
            found.mistakes.append(Mistake(f"{where}.function", problem, FUNCTION_REMEDY))
        if isinstance(described.get("xslt"), str):
            found.mistakes += _read_stylesheet(found, name, directory / described["xslt"])
    return found


def transforms_of(documents: dict[str, TransformDocument], stylesheets: Stylesheets) -> dict[str, Transform]:
    """The transforms of a file without mistakes."""
    found = {}
    for name, document in documents.items():
        said = document.model_dump(exclude_none=True, exclude={"xslt"})
        found[name] = msgspec.convert({**said, "stylesheet": stylesheets.texts.get(name, "")}, Transform)
    return found


def use_mistakes(where: str, topic: dict[str, Any], transforms: dict[str, Any]) -> Iterator[Mistake]:
    """Contracts with transforms that there are not, or that can have none."""
    asked = topic.get("transform")
    if asked is None:
        return
    name = asked.get("use") if isinstance(asked, dict) else asked
    if isinstance(name, str) and name not in transforms:
        known = ", ".join(map(str, transforms)) or "a name under `transforms`"
        yield Mistake(f"{where}.transform", f"there is no transform {name!r}", known)
    if topic.get("scope") == "domain":
        yield Mistake(
            f"{where}.transform", "means nothing for a topic that stays in its domain: no gateway sees it"
        )
    if topic.get("mirror") not in (None, False, "none"):
        yield Mistake(
            f"{where}.transform",
            "copies of a mirrored topic go by brokers that no gateway sees, and would differ",
            "`transform` or `mirror`, not both",
        )


def _kind_mistakes(where: str, described: dict[str, Any]) -> Iterator[Mistake]:
    kinds = [key for key in ("xslt", "function") if described.get(key) is not None]
    document = [key for key in DOCUMENT_KEYS if described.get(key)]
    allowed = "document keys, or `xslt`, or `function`"
    if len(kinds) > 1 or (kinds and document):
        yield Mistake(where, f"{', '.join([*kinds, *document])} do not go together", allowed)
    elif not kinds and not document:
        yield Mistake(where, "does nothing", f"{', '.join(DOCUMENT_KEYS)}, or `xslt`, or `function`")
    names = list(_mapping(described.get("rename")).values())
    if len(set(map(str, names))) < len(names):
        yield Mistake(f"{where}.rename", "two fields get the same name")


def _read_stylesheet(found: Stylesheets, name: str, path: Path) -> Iterator[Mistake]:
    where = f"transforms.{name}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        yield Mistake(f"{where}.xslt", f"cannot read {path}: {problem}")
        return
    if len(text.encode()) > MAX_STYLESHEET_BYTES:
        yield Mistake(f"{where}.xslt", f"{path} is larger than {MAX_STYLESHEET_BYTES:,} bytes")
        return
    found.texts[name] = text

    def compile_it() -> object:
        from mangrove.mediation.stylesheets import stylesheet

        return stylesheet(text)

    yield from _tried(where, compile_it)


def _tried(where: str, attempt: Any) -> Iterator[Mistake]:
    """What is wrong with something that has to be made to be checked."""
    try:
        attempt()
    except TransformError as error:
        yield Mistake(f"{where}.{error.key}", error.message, error.hint)
    except ModuleNotFoundError as error:
        yield Mistake(
            where, f"needs the package {error.name}", "pip install 'mangrove-messaging[transforms]'"
        )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
