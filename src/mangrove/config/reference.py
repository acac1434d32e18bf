"""The reference page of the federation file, from the models themselves."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from mangrove.config.document.contracts import LimitsDocument, SessionLimitsDocument, TopicDocument
from mangrove.config.document.decisions import PlansDocument
from mangrove.config.document.federation import FederationDocument
from mangrove.config.document.fields import Strict
from mangrove.config.document.security import (
    AccessDocument,
    AccessRuleDocument,
    ContractGrantDocument,
    SecurityDocument,
    WhoDocument,
)
from mangrove.config.document.sites import (
    DomainDocument,
    EdgeDocument,
    ElasticDocument,
    ExternalCredentialsDocument,
    ExternalDocument,
    HostDocument,
    LinkDocument,
    NameDocument,
    RegionDocument,
    RiskGroupDocument,
)
from mangrove.config.document.transforms import TransformDocument, TransformUseDocument

SECTIONS: tuple[tuple[str, type[Strict]], ...] = (
    ("The file", FederationDocument),
    ("limits", LimitsDocument),
    ("domains.NAME", DomainDocument),
    ("domains.NAME.edges[]", EdgeDocument),
    ("domains.NAME.hosts.NAME", HostDocument),
    ("domains.NAME.elastic", ElasticDocument),
    ("domains.NAME.names[]", NameDocument),
    ("domains.NAME.external", ExternalDocument),
    ("domains.NAME.external.credentials", ExternalCredentialsDocument),
    ("links[]", LinkDocument),
    ("topics[]", TopicDocument),
    ("topics[].limits", SessionLimitsDocument),
    ("topics[].transform", TransformUseDocument),
    ("transforms.NAME", TransformDocument),
    ("regions.NAME", RegionDocument),
    ("risk_groups.NAME", RiskGroupDocument),
    ("plans", PlansDocument),
    ("access", AccessDocument),
    ("access.rules[]", AccessRuleDocument),
    ("access.rules[].who", WhoDocument),
    ("access.contracts[]", ContractGrantDocument),
    ("security", SecurityDocument),
)


def federation_file_reference() -> str:
    """Markdown with one table for each part of the file."""
    parts = [
        "# Federation file",
        "",
        "Generated from the code by `make docs`. How to write one: "
        "[write a federation file](../how-to/write-a-federation-file.md).",
    ]
    for title, model in SECTIONS:
        summary = " ".join((model.__doc__ or "").split())
        parts += [
            "",
            f"## {title}",
            "",
            summary,
            "",
            "| key | default | allowed | meaning |",
            "|---|---|---|---|",
        ]
        for key, field in model.model_fields.items():
            parts.append(f"| `{key}` | {_default(field)} | {_allowed(field)} | {field.description or ''} |")
    return "\n".join(parts) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    return "–" if value is None or value in ([], {}) else f"`{getattr(value, 'value', value)}`"


def _allowed(field: FieldInfo) -> str:
    bounds = [*_bounds(field.metadata), *_inner_bounds(field.annotation)]
    names = _type_name(field.annotation)
    return f"{names}, {', '.join(bounds)}" if bounds else names


def _inner_bounds(annotation: Any) -> list[str]:
    """Bounds that stand inside the annotation, as in `Annotated[float, Field(gt=0)] | None`."""
    found: list[str] = []
    for part in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,):
        if get_origin(part) is Annotated:
            for extra in get_args(part)[1:]:
                if isinstance(extra, FieldInfo):
                    found += _bounds(extra.metadata)
    return found


def _bounds(metadata: list[Any]) -> list[str]:
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    return [
        f"{word} {getattr(item, name):,}"
        for item in metadata
        for name, word in words.items()
        if getattr(item, name, None) is not None
    ]


def _type_name(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type_name(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_name(part) for part in get_args(annotation) if part is not type(None))
    if origin is list:
        return f"list of {_type_name(get_args(annotation)[0])}"
    if origin is dict:
        return f"mapping to {_type_name(get_args(annotation)[1])}"
    if origin is tuple:
        return f"[{', '.join(_type_name(part) for part in get_args(annotation))}]"
    if hasattr(annotation, "__members__"):
        return " or ".join(f"`{member.value}`" for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return "section below"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(annotation, "")
