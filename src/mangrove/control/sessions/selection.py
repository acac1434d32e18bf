"""What a session moves, and where to: the problem is put to a method, and its answer is checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from mangrove.control.offloading.problem import Acceptor, Bundle, Choice, Method, Move, Problem
from mangrove.control.sessions.moved_topics import MovedTopics
from mangrove.model.agents.load import Amounts, Metric
from mangrove.model.agents.peers import EdgeRoom


def select(method: Method, problem: Problem, moved: MovedTopics, now: float) -> Choice:
    """The method's choice, in which no topic goes to a broker that it left in this burst.

    Topics that were moved in this burst stay if the others suffice; if not, they may go on to brokers that
    none of them has left.
    """
    names = {acceptor.broker for acceptor in problem.acceptors}
    bars = {bundle.topic: moved.barred(bundle.topic, now) & names for bundle in problem.bundles}
    free = tuple(bundle for bundle in problem.bundles if not bars[bundle.topic])
    first = _checked(method(msgspec.structs.replace(problem, bundles=free)), problem)
    pinned = tuple(bundle for bundle in problem.bundles if bars[bundle.topic])
    if not first.unmet or not pinned:
        return first
    left = frozenset().union(*bars.values())
    acceptors = tuple(
        msgspec.structs.replace(acceptor, room=acceptor.room.minus(_taken(first.moves, acceptor)))
        for acceptor in problem.acceptors
        if acceptor.broker not in left
    )
    if not acceptors:
        return first
    rest = msgspec.structs.replace(problem, bundles=pinned, acceptors=acceptors, need=first.unmet)
    second = _checked(method(rest), rest)
    return Choice((*first.moves, *second.moves), second.unmet)


def _taken(moves: Iterable[Move], acceptor: Acceptor) -> Amounts:
    total = Amounts()
    for move in moves:
        if (move.to.broker, move.to.domain) == (acceptor.broker, acceptor.domain):
            total = total.plus(move.cost)
    return total


def _checked(choice: Choice, problem: Problem) -> Choice:
    """What a method chose, without moves for which there is no room, or that lead a topic to two brokers."""
    rooms = {(each.domain, each.broker): each.room for each in problem.acceptors}
    good: list[Move] = []
    topics: set[str] = set()
    for move in choice.moves:
        place = (move.to.domain, move.to.broker)
        room = rooms.get(place)
        if room is not None and move.topic not in topics and move.cost.fits(room):
            rooms[place] = room.minus(move.cost)
            topics.add(move.topic)
            good.append(move)
    return Choice(tuple(good), choice.unmet)


def without(bundles: Iterable[Bundle], topics: Collection[str]) -> tuple[Bundle, ...]:
    """Bundles that are not on their way already, and have somebody to be told."""
    return tuple(bundle for bundle in bundles if bundle.members and bundle.topic not in topics)


def foreign_acceptors(rooms: Mapping[str, Sequence[EdgeRoom]]) -> tuple[Acceptor, ...]:
    """Brokers of linked domains, as these told of them; what cannot be right is left out."""
    return tuple(
        Acceptor(
            broker=room.broker,
            domain=peer,
            room=Amounts(*(room.remaining.get(metric, math.inf) for metric in Metric)),
            headroom=1.0 if room.headroom is None else room.headroom,
            topics=frozenset(room.topics),
        )
        for peer, brokers in rooms.items()
        for room in brokers
        if _possible(room)
    )


def _possible(room: EdgeRoom) -> bool:
    figures = [*room.remaining.values(), 0.0 if room.headroom is None else room.headroom]
    return all(map(math.isfinite, figures)) and min(figures) >= 0.0


def plain(amounts: Amounts) -> dict[str, float]:
    """Amounts by the names of their metrics, without those that are nothing."""
    return {
        metric.value: amount for metric in Metric if (amount := amounts.of(metric)) and math.isfinite(amount)
    }


def by_metric(amounts: Amounts) -> dict[Metric, float]:
    """The same, as it travels."""
    return {metric: amounts.of(metric) for metric in Metric}
