"""Topics by importance, as long as they fit (ePEER §5.2.2).

Of a topic that does not fit as a whole the most useful publishers are taken, and the first that does not fit
says what there is room for. Then smaller topics that fit still may, unless `stop_at_first`: then nothing that
loads the same broker is taken any more.
"""

from __future__ import annotations

from mangrove.control.congestion.importance import importances
from mangrove.control.congestion.problem import CongestionProblem, Selection, TopicDemand
from mangrove.control.congestion.selection.ledger import Ledger


def greedy(problem: CongestionProblem) -> Selection:
    """What everybody may say when the most important topics are served first."""
    ledger = Ledger(problem)
    importance = importances(problem)
    closed: set[str] = set()
    for topic in by_rank(problem, importance):
        if closed and not closed.isdisjoint(topic.copies):
            _silence(ledger, topic)
        elif not serve(ledger, topic) and problem.stop_at_first:
            closed.update(broker for broker in topic.copies if broker in problem.budgets)
    return Selection(allowed=ledger.allowed, importance=importance, short=ledger.short)


def by_rank(problem: CongestionProblem, importance: dict[str, float]) -> list[TopicDemand]:
    """Topics that may be limited, the most important first; equal ones by name."""

    def key(topic: TopicDemand) -> tuple[float, str]:
        return (-importance[topic.topic] if topic.rank is None else -topic.rank), topic.topic

    return sorted((topic for topic in problem.topics if not topic.protected), key=key)


def serve(ledger: Ledger, topic: TopicDemand) -> bool:
    """Give a topic what it needs or what is left, the most useful publishers first; whether it was all."""
    loads = ledger.loads(topic)
    messages_s = bytes_s = 0.0
    for publisher in topic.publishers:
        messages_s += publisher.msg_s
        bytes_s += publisher.msg_s * publisher.size_bytes
    allowed = ledger.allowed
    if ledger.fits(loads, messages_s, bytes_s):
        ledger.take(loads, messages_s, bytes_s)
        for publisher in topic.publishers:
            allowed[topic.topic, publisher.publisher] = publisher.msg_s
        return True
    for publisher in sorted(topic.publishers, key=lambda one: (-one.utility, one.publisher)):
        messages_s = ledger.most(loads, publisher.msg_s, publisher.size_bytes)
        ledger.take(loads, messages_s, messages_s * publisher.size_bytes)
        allowed[topic.topic, publisher.publisher] = messages_s
    return False


def _silence(ledger: Ledger, topic: TopicDemand) -> None:
    for publisher in topic.publishers:
        ledger.allowed[topic.topic, publisher.publisher] = 0.0
