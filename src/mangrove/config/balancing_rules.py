"""Rules across the fields of `balancing`, and on whose load a domain accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mangrove.errors import Mistake
from mangrove.model.balancing import DISTRIBUTIONS, OFFLOADING_METHODS, Balancing
from mangrove.model.site_pair import site_pair

DEFAULTS = Balancing()


def balancing_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    """Thresholds out of order, names that nothing has, and domains that cannot hand over load."""
    balancing = raw.get("balancing")
    if isinstance(balancing, dict):
        yield from _threshold_mistakes(balancing)
        yield from _name_mistakes(balancing, "method", OFFLOADING_METHODS)
        yield from _name_mistakes(balancing, "distribution", DISTRIBUTIONS)
    yield from _acceptance_mistakes(raw)
    yield from _steering_mistakes(raw)


def _threshold_mistakes(balancing: dict[str, Any]) -> Iterator[Mistake]:
    low, high = (balancing.get(name, getattr(DEFAULTS, name)) for name in ("low", "high"))
    if not _number(high):
        return  # reported where it stands
    if _number(low) and low >= high:
        place = "balancing.low" if "low" in balancing else "balancing.high"
        yield Mistake(place, f"low is {low:g} and high is {high:g}", "a low below high")
    for name in ("ceiling", "target"):
        value = balancing.get(name)
        if _number(value) and value > high:
            yield Mistake(f"balancing.{name}", f"found {value:g}", f"up to high, which is {high:g}")


def _name_mistakes(balancing: dict[str, Any], key: str, known: tuple[str, ...]) -> Iterator[Mistake]:
    value = balancing.get(key, known[0])
    if isinstance(value, str) and value not in known:
        yield Mistake(f"balancing.{key}", f"found {value!r}", ", ".join(known))


def _acceptance_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    domains, linked = raw.get("domains"), _linked(raw.get("links"))
    if not isinstance(domains, dict):
        return
    for name, domain in domains.items():
        accepted = domain.get("accept_load_from") if isinstance(domain, dict) else None
        seen: set[str] = set()
        for position, other in enumerate(accepted if isinstance(accepted, list) else []):
            place = f"domains.{name}.accept_load_from[{position}]"
            if other == name:
                yield Mistake(place, "is the domain itself", "other domains")
            elif other not in domains:
                known = ", ".join(str(each) for each in domains if each != name) or "there is no other"
                yield Mistake(place, f"there is no domain {other!r}", known)
            elif site_pair(str(name), str(other)) not in linked:
                yield Mistake(place, f"no link joins {name} and {other}", "domains that are linked with it")
            elif other in seen:
                yield Mistake(place, f"{other} is named twice", "each domain once")
            seen.add(str(other))


def _steering_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    """A domain whose clients nobody takes has nowhere to lead them."""
    domains = raw.get("domains")
    if not isinstance(domains, dict):
        return
    described = {str(name): domain for name, domain in domains.items() if isinstance(domain, dict)}
    for name, domain in described.items():
        takers = [
            other
            for other, each in described.items()
            if isinstance(accepted := each.get("accept_load_from"), list) and name in accepted
        ]
        if domain.get("steer") is True and not takers:
            yield Mistake(
                f"domains.{name}.steer",
                "no other domain takes clients from this one",
                f"{name} in `accept_load_from` of a linked domain, or `steer: false`",
            )


def _linked(links: Any) -> set[tuple[str, str]]:
    return {
        site_pair(*map(str, link["between"]))
        for link in (links if isinstance(links, list) else [])
        if isinstance(link, dict) and isinstance(link.get("between"), list) and len(link["between"]) == 2
    }


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
