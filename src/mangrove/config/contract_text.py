"""Contracts that are given one by one, checked as those of a federation file are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from pydantic import ValidationError

from mangrove.config.contract_rules import contract_mistakes
from mangrove.config.document.contracts import TopicDocument
from mangrove.config.found import found_text
from mangrove.config.yaml_text import read_yaml
from mangrove.errors import InputError, InvalidDocumentError, Mistake
from mangrove.model.federation import Federation
from mangrove.model.topics import Contract

_DEFAULTS = msgspec.to_builtins(Contract(match=""))


def terms_of(contract: Contract) -> dict[str, Any]:
    """What a contract says beyond the default, as a file would."""
    said = msgspec.to_builtins(contract)
    terms = {key: value for key, value in said.items() if value != _DEFAULTS[key]}
    if "limits" in terms:
        terms["limits"] = {key: value for key, value in terms["limits"].items() if value is not None}
    return terms


def read_terms(pairs: Iterable[str]) -> dict[str, Any]:
    """`key=value` pairs; values as in a federation file."""
    terms: dict[str, Any] = {}
    for pair in pairs:
        key, found, text = pair.partition("=")
        if not found or not key:
            raise InputError(f"{pair!r} is not key=value", hint="for example: deadline_ms=150 paths=2")
        value, mistakes = read_yaml(text)
        if mistakes:
            raise InvalidDocumentError(pair, mistakes)
        terms[key] = value
    return terms


def checked_contracts(
    federation: Federation, contracts: Iterable[Contract], changed: Mapping[str, Any]
) -> tuple[Contract, ...]:
    """Contracts with one of them set: in the place of the one with its `match`, or before the first that
    would hide it. InvalidDocumentError with all mistakes."""
    raw = [terms_of(contract) for contract in contracts]
    match = changed.get("match")
    places = [place for place, each in enumerate(raw) if each["match"] == match]
    if places:
        raw[places[0]] = dict(changed)
    else:
        raw.insert(_place(raw, str(match)), dict(changed))
    place = next(at for at, each in enumerate(raw) if each.get("match") == match)
    mistakes: list[Mistake] = []
    found: list[Contract] = []
    for index, each in enumerate(raw):
        try:
            document = TopicDocument.model_validate(each)
        except ValidationError as error:
            mistakes += [
                Mistake(".".join(map(str, item["loc"])), f"{item['msg']} (found {found_text(item['input'])})")
                for item in error.errors(include_url=False)
                if index == place
            ]
            continue
        found.append(msgspec.convert(document.model_dump(), Contract))
    surroundings: dict[str, Any] = {
        "topics": raw,
        "regions": msgspec.to_builtins(federation.regions),
        "domains": msgspec.to_builtins(federation.domains),
        "security": federation.security.mode.value,
        "transforms": msgspec.to_builtins(federation.transforms),
    }
    here = f"topics[{place}]"
    for mistake in contract_mistakes(surroundings):
        if mistake.path.startswith(here):
            key = mistake.path.removeprefix(here).lstrip(".")
            mistakes.append(Mistake(key, mistake.problem, mistake.allowed))
    if mistakes:
        raise InvalidDocumentError(f"the contract of {match}", mistakes)
    return tuple(found)


def contracts_without(contracts: Iterable[Contract], match: str) -> tuple[Contract, ...]:
    """Contracts without one of them; InputError if there is none, or others keep apart from it."""
    before = tuple(contracts)
    left = tuple(each for each in before if each.match != match)
    if left == before:
        known = ", ".join(each.match for each in before) or "none"
        raise InputError(f"there is no contract {match!r}", hint=f"there are: {known}")
    used = [each.match for each in left if match in each.apart_from]
    if used:
        raise InputError(
            f"the contract {match!r} is still in use: {', '.join(used)} keeps apart from it",
            hint="change that first",
        )
    return left


def _place(raw: list[dict[str, Any]], match: str) -> int:
    """Before the first contract that covers all of it: after that one it would govern nothing."""
    from mangrove.model.subjects import covers

    return next((place for place, each in enumerate(raw) if covers(each["match"], match)), len(raw))
