"""Pages of the directory, in order of topics, for `mangrove directory` and for clients."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator

from mangrove.control.clients.placements import Placements
from mangrove.control.directory.directory import Directory
from mangrove.control.site import Site
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryQuestion, ServedTopic
from mangrove.model.agents.registration import ClientRole
from mangrove.model.subjects import subject_problem
from mangrove.model.topics import overlaps

MAX_TOPICS_A_PAGE = 1000


def directory_page(
    question: DirectoryQuestion, site: Site, term: int, directory: Directory, placements: Placements
) -> DirectoryAnswer:
    """The topics that a question is about, beginning after the last of the page before."""
    limit = max(1, min(question.limit, MAX_TOPICS_A_PAGE))
    if question.topic and subject_problem(question.topic, wildcards=True):
        return DirectoryAnswer(domain=site.domain, term=term, topics=())
    known: Iterable[str] = {*directory, *placements.topics(ClientRole.PUBLISHER)}
    found = heapq.nsmallest(limit + 1, _wanted(known, question))
    return DirectoryAnswer(
        domain=site.domain,
        term=term,
        topics=tuple(_served(topic, site, directory, placements) for topic in found[:limit]),
        more=len(found) > limit,
    )


def _wanted(topics: Iterable[str], question: DirectoryQuestion) -> Iterator[str]:
    for topic in topics:
        if topic > question.after and (not question.topic or overlaps(topic, question.topic)):
            yield topic


def _served(topic: str, site: Site, directory: Directory, placements: Placements) -> ServedTopic:
    deadline_ms = site.contract(topic).deadline_ms
    return ServedTopic(
        topic=topic,
        record=directory.get(topic),
        subscribers=placements.count(ClientRole.SUBSCRIBER, topic),
        deadline_ms=deadline_ms if deadline_ms is None or math.isfinite(deadline_ms) else None,
    )
