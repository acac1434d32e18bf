"""Whether a document that came from outside can be put in force at all.

Its contracts were checked where it was written, with all that a federation file is checked for. Here the
bounds are checked by which this gateway would be harmed, whoever has signed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.document import FederationDocument
from mangrove.model.versions.membership import membership_problem
from mangrove.model.versions.network import network_problems
from mangrove.model.versions.settings import setting_mistakes
from mangrove.model.versions.succession import MAX_CLASS, MAX_WITHDRAWN, fixed_mistakes

MAX_CONTRACTS = 4096
MAX_CONTRACT_PATHS = 16
MAX_NAME = 63
LIVE_REMEDY = "stop all sites, and start them with the new federation file"


def kinship_problem(document: FederationDocument, of: FederationDocument) -> str:
    """Why a document is not of the federation, and the history, of another one; empty if it is."""
    if document.federation != of.federation:
        return f"it is of federation {document.federation!r}, not {of.federation!r}"
    if document.line != of.line or document.shape != of.shape:
        return "it follows from another federation file"
    return ""


def document_problem(document: FederationDocument, before: FederationDocument) -> str:
    """Why a document cannot follow the one in force; empty if it can."""
    problem = kinship_problem(document, before)
    if problem:
        return problem
    if document.version != before.version + 1 or document.before != before.digest:
        return f"version {document.version} does not follow from version {before.version}, which is in force"
    return (
        content_problem(document)
        or _succession_problem(document, before)
        or membership_problem(document, before)
    )


def content_problem(document: FederationDocument) -> str:
    """Why a document can be in force nowhere; empty if it can."""
    return next(_mistakes(document), "")


def _succession_problem(document: FederationDocument, before: FederationDocument) -> str:
    known, rest = before.topics.known(), before.topics.unmatched
    for topic_class, contract in document.topics.known().items():
        if known.get(topic_class, contract) != contract or topic_class == rest:
            return f"it gives the number {topic_class} another meaning"
        if topic_class not in known and topic_class < before.next_class:
            return f"it gives the number {topic_class} again"
    if document.topics.unmatched != rest or document.next_class < before.next_class:
        return "it numbers contracts anew"
    fixed = fixed_mistakes(before.topics, document.topics)
    if fixed:
        return f"it changes {', '.join(fixed)}, which needs a restart: {LIVE_REMEDY}"
    return ""


def _mistakes(document: FederationDocument) -> Iterator[str]:
    topics = document.topics
    if document.network is not None:
        yield from network_problems(document.network)
    if len(topics.contracts) > MAX_CONTRACTS or len(topics.withdrawn) > MAX_WITHDRAWN:
        yield "it has too many contracts"
    if len(topics.ids) != len(topics.contracts):
        yield "its contracts and their numbers do not match"
        return
    numbers = [*topics.ids, topics.unmatched, *(each.topic_class for each in topics.withdrawn)]
    if len(set(numbers)) < len(numbers):
        yield "it gives a number twice"
    if not all(0 <= number < document.next_class <= MAX_CLASS for number in numbers):
        yield "a number of a contract is beyond the limits"
    for contract in topics.contracts:
        yield from _contract_mistakes(contract, topics)
    yield from setting_mistakes(document)


def _contract_mistakes(contract: Contract, topics: TopicRules) -> Iterator[str]:
    where = f"contract {contract.match!r}"
    if problem := subject_problem(contract.match, wildcards=True):
        yield f"{where} is about no subject: {problem}"
    elif is_internal(contract.match):
        yield f"{where} is about internal subjects"
    for key in ("deadline_ms", "rate_mbps", "rate_msg_s", "rate_bytes_s"):
        value = getattr(contract, key)
        if value is not None and not (isfinite(value) and value >= 0):
            yield f"{where}: {key} is {value}"
    if not 1 <= contract.paths <= MAX_CONTRACT_PATHS or not 1 <= contract.max_paths <= MAX_CONTRACT_PATHS:
        yield f"{where}: so many paths cannot be"
    if contract.resiliency is not None and not 0 < contract.resiliency < 1:
        yield f"{where}: resiliency is {contract.resiliency}"
    if contract.transform is not None and (contract.mirror or len(contract.transform.use) > MAX_NAME):
        yield f"{where}: it is mirrored and transformed, or its transform has no name"
    if contract.max_hops is not None and not 1 <= contract.max_hops <= 31:
        yield f"{where}: max_hops is {contract.max_hops}"
    if not 0 <= contract.separation_km <= 20_040:
        yield f"{where}: separation_km is {contract.separation_km}"
