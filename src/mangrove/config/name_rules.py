"""Rules on the names of a domain's own: no name may mean two things on either side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mangrove.errors import Mistake
from mangrove.model.names.mapping import NameMapping, problems_beside


def name_mistakes(domains: dict[str, Any], topics: Any) -> Iterator[Mistake]:
    """Names that are none, that overlap, or that are unlike; and of mirrored topics."""
    mirrored = [
        str(each["match"])
        for each in (topics if isinstance(topics, list) else [])
        if isinstance(each, dict) and each.get("match") and each.get("mirror") not in (None, False, "none")
    ]
    for domain, described in domains.items():
        listed = described.get("names") if isinstance(described, dict) else None
        mappings: list[NameMapping] = []
        for each in listed if isinstance(listed, list) else []:
            local, federation = (
                (each.get("local"), each.get("federation")) if isinstance(each, dict) else (0, 0)
            )
            if not (isinstance(local, str) and isinstance(federation, str)):
                break  # reported where it stands
            mappings.append(NameMapping(local=local, federation=federation))
        for problem in problems_beside(tuple(mappings), mirrored):
            place = f"domains.{domain}.names[{problem.position}].{problem.key}"
            yield Mistake(place, problem.found, problem.allowed)
