"""Rules across the fields of contracts and risk groups, judged on raw data as those in `rules` are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mangrove.config.document.federation import FederationDocument
from mangrove.config.transform_rules import use_mistakes
from mangrove.errors import Mistake
from mangrove.model.federation import MAX_PREPARED_PAIRS, Prepare, great_circle_km
from mangrove.model.security.rules import SecurityMode
from mangrove.model.site_pair import site_pair
from mangrove.model.topics import DEFAULT_MAX_PATHS


def contract_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    """Contracts that contradict themselves, or name what there is not."""
    topics = [topic for topic in _list(raw.get("topics")) if isinstance(topic, dict)]
    regions = _mapping(raw.get("regions"))
    matches = {topic.get("match") for topic in topics}
    for index, topic in enumerate(_list(raw.get("topics"))):
        if not isinstance(topic, dict):
            continue
        where = f"topics[{index}]"
        yield from _path_mistakes(where, topic)
        yield from _apart_mistakes(where, topic, regions, matches)
        yield from _region_mistakes(where, topic, regions, _mapping(raw.get("domains")))
        yield from _limit_mistakes(where, topic)
        yield from use_mistakes(where, topic, _mapping(raw.get("transforms")))
        if topic.get("confidential") is True and not _secured(raw):
            yield Mistake(
                f"{where}.confidential",
                "nothing can be sealed without keys",
                "`security: keys`, or no `confidential`",
            )
        if topic.get("confidential") is True and topic.get("sample_text") is True:
            yield Mistake(
                f"{where}.sample_text",
                "words of confidential messages are never kept",
                "`sample_text` or `confidential`, not both",
            )


def _secured(raw: dict[str, Any]) -> bool:
    """Whether the file asks for keys; what is no answer to that is reported where it stands."""
    security = raw.get("security", FederationDocument.model_fields["security"].default.mode)
    return (security.get("mode") if isinstance(security, dict) else security) != SecurityMode.NONE


def _path_mistakes(where: str, topic: dict[str, Any]) -> Iterator[Mistake]:
    paths, most = topic.get("paths", 1), topic.get("max_paths", DEFAULT_MAX_PATHS)
    if "max_paths" in topic and "resiliency" not in topic:
        yield Mistake(f"{where}.max_paths", "limits nothing", "`resiliency` beside it, or `paths` instead")
    if "resiliency" in topic and _number(paths) and _number(most) and paths > most:
        yield Mistake(f"{where}.paths", f"asks for {paths} paths, but `max_paths` allows {most}")
    if topic.get("scope") == "domain":
        for key in ("resiliency", "max_hops", "separation_km", "apart_from", "confidential"):
            if topic.get(key):
                yield Mistake(f"{where}.{key}", "means nothing for a topic that stays in its domain")


def _apart_mistakes(
    where: str, topic: dict[str, Any], regions: dict[str, Any], matches: set[Any]
) -> Iterator[Mistake]:
    apart = _list(topic.get("apart_from"))
    if apart and not topic.get("separation_km"):
        yield Mistake(f"{where}.apart_from", "does not say how far", "`separation_km` beside it")
    known = ", ".join(map(str, [*regions, *(match for match in matches if match != topic.get("match"))]))
    for position, name in enumerate(apart):
        if name == topic.get("match"):
            yield Mistake(f"{where}.apart_from[{position}]", "a topic cannot keep away from itself")
        elif name not in regions and name not in matches:
            yield Mistake(
                f"{where}.apart_from[{position}]",
                f"there is no region and no contract {name!r}",
                known or "a name under `regions`",
            )


def _region_mistakes(
    where: str, topic: dict[str, Any], regions: dict[str, Any], domains: dict[str, Any]
) -> Iterator[Mistake]:
    """Regions from which no two sites are far enough, so that no path can be."""
    places = [_place(_mapping(domain).get("location")) for domain in domains.values()]
    known = [place for place in places if place is not None]
    separation = topic.get("separation_km", 0)
    if not 2 <= len(known) == len(places) or not _number(separation):
        return
    for position, name in enumerate(_list(topic.get("apart_from"))):
        region = _mapping(regions.get(name)) if isinstance(name, str) else {}
        centre, radius = _place(region.get("centre")), region.get("radius_km")
        if centre is None or not _number(radius):
            continue
        distances = [
            great_circle_km(place, centre) - float(radius or 0) for place in places if place is not None
        ]
        if sum(distance >= separation for distance in distances) < 2:
            second = max(0.0, sorted(distances)[-2])
            yield Mistake(
                f"{where}.apart_from[{position}]",
                f"no two sites are {separation:g} km from region {name}",
                f"separation_km up to {second:.0f}, or a smaller region",
            )


def _place(value: Any) -> tuple[float, float] | None:
    if isinstance(value, list) and len(value) == 2 and all(map(_number, value)):
        return float(value[0]), float(value[1])
    return None


def _limit_mistakes(where: str, topic: dict[str, Any]) -> Iterator[Mistake]:
    limits = _mapping(topic.get("limits"))
    if topic.get("scope") == "domain" and limits:
        yield Mistake(f"{where}.limits", "mean nothing for a topic that stays in its domain")
    less = {
        "deadline_ms": "a deadline no longer than the contract's",
        "paths": "at least as many as the contract has",
        "resiliency": "at least the contract's",
    }
    for key, allowed in less.items():
        limit, own = limits.get(key), topic.get(key)
        if limit is None or own is None or not (_number(limit) and _number(own)):
            continue
        if limit > own if key == "deadline_ms" else limit < own:
            yield Mistake(f"{where}.limits.{key}", f"{limit} allows less than the contract's {own}", allowed)


def risk_group_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    """Risk groups that name links or sites that there are not."""
    domains = _mapping(raw.get("domains"))
    linked = {
        site_pair(*map(str, link["between"]))
        for link in _list(raw.get("links"))
        if isinstance(link, dict) and isinstance(link.get("between"), list) and len(link["between"]) == 2
    }
    for name, group in _mapping(raw.get("risk_groups")).items():
        where = f"risk_groups.{name}"
        links, sites = _list(_mapping(group).get("links")), _list(_mapping(group).get("sites"))
        if len(links) + len(sites) < 2:
            yield Mistake(where, "has less than two members", "links and sites that fail together")
        for position, link in enumerate(links):
            if isinstance(link, list) and len(link) == 2 and site_pair(*map(str, link)) not in linked:
                ends = " and ".join(map(str, link))
                yield Mistake(f"{where}.links[{position}]", f"no link joins {ends}")
        for position, site in enumerate(sites):
            if site not in domains:
                yield Mistake(
                    f"{where}.sites[{position}]", f"there is no domain {site!r}", ", ".join(map(str, domains))
                )


def prepare_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    """More pairs of failures than a gateway can prepare for."""
    elements = len(_mapping(raw.get("domains"))) + len(_list(raw.get("links")))
    pairs = elements * (elements - 1) // 2
    if raw.get("prepare") == Prepare.PAIRS and pairs > MAX_PREPARED_PAIRS:
        found = f"{pairs:,} pairs of links and sites are more than {MAX_PREPARED_PAIRS:,}"
        yield Mistake("prepare", found, "`singles`, and risk_groups for what fails together")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
