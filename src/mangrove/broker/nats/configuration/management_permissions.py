"""What each user may do at a management broker, where agents, gateways, hosts, operators and clients meet.

Each may hear answers under an inbox of its own name alone. A client speaks and is spoken to under its own
name; what is said to other clients, between agents and to those who run the hosts it can neither hear nor
say, and nobody but the agents touches what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from mangrove.broker.nats.configuration.users import PLAIN, key_users, password_users
from mangrove.broker.security import BrokerSecurity, Rights, Subjects
from mangrove.model.agents.names import (
    agent_status_subject,
    announcement_subject,
    capacity_subject,
    directory_subject,
    from_peer_subject,
    operations_subject,
    supervisor_subject,
    supervisors_subject,
    to_peer_subject,
)
from mangrove.model.agents.speakers import ANY_USER, client_may_hear, client_may_publish, said_by, told_to
from mangrove.model.questions.contracts_question import signer_subject
from mangrove.model.questions.endangered import gateway_avoid_subject
from mangrove.model.questions.terms_question import terms_told_subject
from mangrove.model.questions.versions_question import gateway_versions_subject
from mangrove.model.questions.vouching import gateway_attachments_subject
from mangrove.model.security.users import AGENT_USER, GATEWAY_USER, HOST_USER, OPERATOR_USER, User
from mangrove.model.shared_names import (
    gateway_carries_subject,
    gateway_interest_subject,
    gateway_status_subject,
)
from mangrove.model.stream.events import events_subject
from mangrove.model.stream.messages import said_subject, watch_subject
from mangrove.model.topic_counts import gateway_topics_subject

INBOXES = "_INBOX.>"
_STORE = ("$JS.>", "$KV.>")
OFFERS_BUCKET = "mangrove-offers"
"""The one part of the store where operators leave something: plans."""
_OFFERS = (
    f"$KV.{OFFERS_BUCKET}.>",
    "$JS.API.INFO",
    f"$JS.API.STREAM.*.KV_{OFFERS_BUCKET}",
    f"$JS.API.STREAM.MSG.GET.KV_{OFFERS_BUCKET}",
    f"$JS.API.DIRECT.GET.KV_{OFFERS_BUCKET}.>",
    f"$JS.API.CONSUMER.*.KV_{OFFERS_BUCKET}",
    f"$JS.API.CONSUMER.*.KV_{OFFERS_BUCKET}.>",
)


def management_users(security: BrokerSecurity) -> Iterator[str]:
    """All who may come to a management broker of a domain."""
    for user in security.users:
        said, heard = _subjects(user, security.domain)
        if said:
            heard = (*heard, f"_INBOX.{user.name}.>")
            rights = Rights(Subjects(allow=said), Subjects(allow=heard))
            yield from key_users(user, rights, [PLAIN])
            yield from password_users(user, rights, [PLAIN])


def _subjects(user: User, domain: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a user may publish and what it may hear, besides its own inbox; nothing: it has no part here."""
    if user.home:  # it is managed at home, and asks here who knows of its subscriptions
        return (gateway_interest_subject(domain, user.name),), ()
    if user.client:
        return client_may_publish(user.name, domain), client_may_hear(user.name, domain)
    everything = f"mangrove.{domain}.>"
    to_the_gateway = f"mangrove.{domain}.gateway.>"
    match user.name:
        case str(name) if name == AGENT_USER:
            return (everything, *_STORE, INBOXES), (everything, *_STORE)
        case str(name) if name == HOST_USER:
            orders = (supervisor_subject(domain, "*"), announcement_subject(domain))
            asks = (gateway_attachments_subject(domain), gateway_versions_subject(domain))
            stream = said_subject(domain)
            heard = (*orders, watch_subject(domain), events_subject(domain, "*"))
            return (supervisors_subject(domain), *asks, stream, INBOXES), heard
        case str(name) if name == GATEWAY_USER:
            said = (
                gateway_carries_subject(domain),
                from_peer_subject(domain, "*"),
                told_to(ANY_USER, domain, ">"),
                terms_told_subject(domain),
                said_subject(domain),
                INBOXES,
            )
            asked = said_by(ANY_USER, domain, "gateway.>")
            return said, (to_the_gateway, asked, to_peer_subject(domain, "*"), watch_subject(domain))
        case str(name) if name == OPERATOR_USER:
            questions = (
                gateway_status_subject(domain),
                gateway_topics_subject(domain),
                gateway_avoid_subject(domain),
                gateway_versions_subject(domain),
                agent_status_subject(domain),
                capacity_subject(domain),
                operations_subject(domain),
                directory_subject(domain),
                supervisors_subject(domain),
                watch_subject(domain),
                events_subject(domain, "*"),
                f"_INBOX.{AGENT_USER}.>",  # whoever holds the authority's key answers agents
                *_OFFERS,
            )
            return questions, (said_subject(domain), signer_subject(domain))
        case _:
            return (), ()
