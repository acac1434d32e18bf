"""DRD: what is least urgent leaves first (ePEER §4.4.4.1, fig. 4-15, corrected).

As printed the algorithm counts one scalar for three metrics, lowers the need by the load on the *acceptor*,
may lead a topic to two brokers, and throws away a list that does not meet the whole need. Here the need is
kept by metric and lowered by what the source is rid of, each topic has one target, and a partial list is
sent.

It goes through the topics and, for each, through the acceptors; the figure does it the other way round, and
then a more urgent topic that fits into the first acceptor leaves although a less urgent one would have fitted
into the second. The work is the same: candidates times topics.
"""

from __future__ import annotations

from mangrove.control.offloading.plan import Plan, deadline_text, relief_text
from mangrove.control.offloading.priorities import prioritised
from mangrove.control.offloading.problem import Audience, Bundle, Choice, Member, Problem
from mangrove.model.agents.load import Metric

_AUDIENCES = {
    Audience.REMOTE: "its other side is in other domains alone",
    Audience.LOCAL: "its other side is in this domain alone",
    Audience.BOTH: "its other side is here and elsewhere",
    Audience.NONE: "nobody is on its other side",
}


def drd(problem: Problem) -> Choice:
    """Move bundles by priority until the need is met; then, if output is what is left of it, subscribers.

    A topic moves only if each one before it in the order moves too, or relieves nothing that was still
    needed, or had room nowhere beside those that moved before it.
    """
    plan = Plan(problem)
    order = prioritised(problem)
    move_bundles(plan, order)
    if Metric.OUTPUT in plan.need and not problem.publishers:
        move_subscribers(plan, order)
    return plan.choice()


def move_bundles(plan: Plan, order: list[Bundle]) -> None:
    """Take whole bundles in this order, each to the first acceptor with room for it."""
    metrics = tuple(plan.problem.need)
    for bundle in order:
        if plan.met():
            return
        if not plan.helps(bundle.load):
            continue
        index = plan.place(bundle)
        if index is not None:
            plan.take(bundle, index, _why(plan, bundle, index, metrics))


def move_subscribers(plan: Plan, order: list[Bundle]) -> None:
    """Take single subscribers of topics that no acceptor can take whole, for the sake of output alone.

    The source goes on to receive and match the topic, so this relieves nothing else. All that leave a topic
    go to one acceptor, the one that can take most of what is needed; the subscribers with the largest
    output first.
    """
    for bundle in order:
        if Metric.OUTPUT not in plan.need:
            return
        if bundle.topic in plan.moved:
            continue
        best: tuple[float, int, tuple[Member, ...]] = (0.0, 0, ())
        for index in range(len(plan.acceptors)):
            members = _fitting(plan, bundle, index)
            output = sum(member.load.output for member in members)
            if output > best[0]:
                best = (output, index, members)
        output, index, members = best
        if members:
            why = (
                f"{len(members)} of {len(bundle.members)} subscribers: no broker has room for all of"
                f" {bundle.topic} ({deadline_text(bundle.deadline_s)}), and output is still too high;"
                f" {plan.acceptors[index].broker} can take most of them"
            )
            plan.take_members(bundle, members, index, why)


def _fitting(plan: Plan, bundle: Bundle, index: int) -> tuple[Member, ...]:
    room = plan.rooms[index].minus(plan.part_cost(bundle, index))
    if min(room) < 0:
        return ()
    chosen: list[Member] = []
    need, left = plan.need[Metric.OUTPUT], room.output
    for member in sorted(bundle.members, key=lambda one: (-one.load.output, one.client, one.key)):
        output = member.load.output
        if need <= 0 or output <= 0:
            break
        if output <= left:
            chosen.append(member)
            left -= output
            need -= output
    return tuple(chosen)


def _why(plan: Plan, bundle: Bundle, index: int, metrics: tuple[Metric, ...]) -> str:
    acceptor = plan.acceptors[index]
    return (
        f"the least urgent of those left ({deadline_text(bundle.deadline_s)}, {_AUDIENCES[bundle.audience]});"
        f" relieves {relief_text(bundle.load, metrics)}; {acceptor.broker} has the most headroom"
        f" ({acceptor.headroom:.1%}) of those with room for it"
    )
