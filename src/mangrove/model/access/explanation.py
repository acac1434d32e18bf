"""What applies to a client and a subject, place by place, and why."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mangrove.model.access.evaluation import AccessJudge, Decision, Extent
from mangrove.model.access.rules import Action, Principal
from mangrove.model.federation import Federation
from mangrove.model.patterns.cover import has_wildcard
from mangrove.model.subjects import is_internal
from mangrove.model.topics import Scope


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided at one place."""

    place: str
    """Who decides: the brokers, or the gateway, of a domain."""
    question: str
    answer: str
    """`yes`, `no`, or `in part` of a pattern."""
    rule: str
    """What decides it, by its place in the file."""
    reason: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """All that applies."""

    client: str
    domain: str
    roles: tuple[str, ...]
    subject: str
    steps: tuple[Step, ...]


def explain(federation: Federation, principal: Principal, subject: str, other: str = "") -> Explanation:
    """What applies to a client that publishes or subscribes to a subject (or subscribes to a pattern).

    With `other`, only towards and from that domain; else all that the client's domain is federated with.
    """
    judge = AccessJudge(federation.access)
    others = [other] if other else [name for name in federation.domains if name != principal.domain]
    return Explanation(
        client=principal.client,
        domain=principal.domain,
        roles=federation.access.roles_of(principal),
        subject=subject,
        steps=(
            *_at_brokers(judge, principal, subject),
            *_at_gateways(federation, judge, principal.domain, others, subject),
        ),
    )


def _at_brokers(judge: AccessJudge, principal: Principal, subject: str) -> Iterator[Step]:
    place = f"brokers of {principal.domain}"
    if is_internal(subject):
        yield Step(
            place=place,
            question="publish or subscribe",
            answer="no",
            rule="internal subjects",
            reason="beginning with $ or _, it belongs to brokers and gateways",
        )
        return
    if has_wildcard(subject):
        extent = judge.extent(principal, Action.SUBSCRIBE, subject)
        decision = judge.decide(principal, Action.SUBSCRIBE, subject)
        answer = {Extent.ALL: "yes", Extent.PART: "in part", Extent.NONE: "no"}[extent]
        reason = decision.reason if extent is not Extent.PART else f"some of it is {decision.reason}"
        yield Step(place=place, question="subscribe", answer=answer, rule=decision.place, reason=reason)
        return
    for action in Action:
        decision = judge.decide(principal, action, subject)
        yield _step(place, action.value, decision)


def _at_gateways(
    federation: Federation, judge: AccessJudge, domain: str, others: list[str], subject: str
) -> Iterator[Step]:
    home = _stays_home(federation, subject)
    for other in others:
        for origin, destination in ((domain, other), (other, domain)):
            passages = (
                (f"gateway of {origin}", f"leave for {destination}"),
                (f"gateway of {destination}", f"enter from {origin}"),
            )
            for place, question in passages:
                if home:
                    rule, reason = home
                    yield Step(place=place, question=question, answer="no", rule=rule, reason=reason)
                elif has_wildcard(subject):
                    told = judge.may_tell(origin, destination, subject)
                    reason = "messages are judged one by one" if told else "nothing under it may pass"
                    answer = "in part" if told else "no"
                    yield Step(place=place, question=question, answer=answer, rule="", reason=reason)
                else:
                    yield _step(place, question, judge.crossing(origin, destination, subject))


def _stays_home(federation: Federation, subject: str) -> tuple[str, str] | None:
    """What keeps a subject in its domain whatever the rules say, and why."""
    if is_internal(subject):
        return "internal subjects", "subjects that begin with $ or _ never leave their domain"
    contracts = federation.topics.contracts
    if has_wildcard(subject):
        home = federation.topics.stays_home(subject)
        return ("topics", "all of it has scope domain") if home else None
    number = federation.topics.index_of(subject)
    if number < len(contracts) and contracts[number].scope is Scope.DOMAIN:
        return f"topics[{number}]", f"{contracts[number].match} has scope domain"
    return None


def _step(place: str, question: str, decision: Decision) -> Step:
    answer = "yes" if decision else "no"
    return Step(place=place, question=question, answer=answer, rule=decision.place, reason=decision.reason)
