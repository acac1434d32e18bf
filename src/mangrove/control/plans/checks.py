"""Whether a plan suits the domain as it is: every reason why not, each with its place."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mangrove.errors import Mistake
from mangrove.model.federation import Federation
from mangrove.model.plans.plan import Plan, PlanCase, PlannedItem
from mangrove.model.plans.topology import hosts_of, topology_fingerprint
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import Mirror, overlaps

AHEAD_S = 300.0
"""Clocks of two machines may differ by so much; data of a later time were made by a wrong clock."""
MAX_TOLD = 20
"""Mistakes of one kind."""


def fitted(plan: Plan, federation: Federation, domain: str) -> Plan:
    """With what the federation file says of it: which items ask for a mirror, and for what it was made."""
    contracts = [each for each in federation.topics.contracts if each.mirror]

    def asked(item: PlannedItem) -> PlannedItem:
        modes = {
            each.mirror for each in contracts if any(overlaps(each.match, topic) for topic in item.topics)
        }
        return msgspec.structs.replace(item, mirrored=bool(modes), both=Mirror.BOTH in modes)

    return msgspec.structs.replace(
        plan,
        topology=plan.topology or topology_fingerprint(federation, domain),
        items=tuple(map(asked, plan.items)),
    )


def mistakes(
    plan: Plan,
    federation: Federation,
    domain: str,
    serving: tuple[str, ...],
    *,
    wall: float,
) -> list[Mistake]:
    """Everything that is wrong with a plan for a domain; `serving` are the brokers that topics may be at.

    `wall` is the time in seconds since 1970.
    """
    found: list[Mistake] = []
    if plan.federation != federation.name:
        found.append(Mistake("federation", f"it is for {plan.federation!r}", f"{federation.name!r}"))
    if plan.domain != domain:
        found.append(Mistake("domain", f"it is for {plan.domain!r}", f"{domain!r}"))
    if found:
        return found
    here = topology_fingerprint(federation, domain)
    if plan.topology != here:
        found.append(
            Mistake(
                "topology",
                "it was made for other brokers, capacities, hosts or contracts than this domain has",
                "compute it again with the federation file that is in force",
            )
        )
    found += _too_old(plan, federation, wall)
    found += list(_topic_mistakes(plan))[:MAX_TOLD]
    hosts = hosts_of(federation, domain)
    for index, case in enumerate(plan.cases):
        path = "cases[0]" if index == 0 else f"cases[{index}]"
        found += list(_case_mistakes(case, path, serving, hosts))[:MAX_TOLD]
        if len(found) > MAX_TOLD:
            break
    return found


def _too_old(plan: Plan, federation: Federation, wall: float) -> Iterator[Mistake]:
    age_s = wall - plan.data_until
    limit_s = federation.plans.max_age_s
    if age_s > limit_s:
        yield Mistake(
            "data_until",
            f"its data end {age_s / 86_400:.1f} days ago",
            f"at most {limit_s / 86_400:g} days (`plans.max_age_h`)",
        )
    ahead_s = max(plan.data_until, plan.made_at) - wall
    if ahead_s > AHEAD_S:
        place = "data_until" if plan.data_until >= plan.made_at else "made_at"
        yield Mistake(place, f"is {ahead_s:.0f} s ahead of this agent's clock: one of two clocks is wrong")


def _topic_mistakes(plan: Plan) -> Iterator[Mistake]:
    item_of: dict[str, str] = {}
    for item in plan.items:
        for topic in item.topics:
            if problem := subject_problem(topic, wildcards=True):
                yield Mistake(f"items.{item.item}", f"{topic!r} is no topic: {problem}")
            elif is_internal(topic):
                yield Mistake(f"items.{item.item}", f"{topic!r} belongs to the machinery of the site")
            elif topic in item_of:
                yield Mistake(f"items.{item.item}", f"{topic!r} is also in {item_of[topic]!r}")
            item_of.setdefault(topic, item.item)


def _case_mistakes(
    case: PlanCase, path: str, serving: tuple[str, ...], hosts: dict[str, str]
) -> Iterator[Mistake]:
    known = set(serving)
    named = ", ".join(serving)
    for field in ("failed", "off"):
        for broker in getattr(case, field):
            if broker not in hosts:
                yield Mistake(f"{path}.{field}", f"there is no broker {broker!r}", ", ".join(hosts))
    for broker in case.risk:
        if broker not in hosts:
            yield Mistake(f"{path}.risk.{broker}", f"there is no broker {broker!r}", named)
    several = len({hosts[broker] for broker in serving}) > 1
    for item, placing in case.placing.items():
        place = f"{path}.placing.{item}"
        for role, broker in (("primary", placing.primary), ("mirror", placing.mirror)):
            if not broker and role == "mirror":
                continue
            if broker not in (known if role == "primary" else hosts):
                yield Mistake(f"{place}.{role}", f"there is no broker {broker!r}", named)
            elif broker in case.failed:
                yield Mistake(f"{place}.{role}", f"{broker!r} is down in this state")
        if not placing.mirror or {placing.primary, placing.mirror} - hosts.keys():
            continue
        if placing.mirror == placing.primary:
            yield Mistake(place, f"primary and mirror are both {placing.primary!r}", "two brokers")
        elif several and hosts[placing.mirror] == hosts[placing.primary] and _avoidable(case, hosts):
            where = hosts[placing.primary]
            yield Mistake(place, f"primary and mirror are both on host {where!r}", "two hosts")


def _avoidable(case: PlanCase, hosts: dict[str, str]) -> bool:
    """Whether brokers on several hosts are left in a state."""
    return len({host for broker, host in hosts.items() if broker not in case.failed}) > 1
