"""What each user may do at a data broker: the brokers that carry what applications say.

A client may use all subjects that the access rules leave to it, and of those that Mangrove itself uses the
ones that the SDK needs: where a client asks its gateway, where second copies go, where markers of moves go,
and inboxes. Everything else under the prefixes of nats-server and of Mangrove belongs to brokers and
gateways; a client that could publish there could speak for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mangrove.broker.nats.configuration.users import LEAF, MQTT, PLAIN, key_users, password_users
from mangrove.broker.nats.mqtt import CONFIRMATIONS
from mangrove.broker.nats.retained import PREFIX as RETAINED
from mangrove.broker.nats.retained import SESSION_PREFIX, STREAM
from mangrove.broker.security import BrokerSecurity, Rights, Subjects
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT
from mangrove.model.security.users import (
    AGENT_USER,
    EDGE_USER,
    GATEWAY_USER,
    HOST_USER,
    PROBE_USER,
    RECORDER_USER,
    User,
    guest_name,
)
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_NEWEST
from mangrove.model.subjects import (
    LETTER_SUBJECT,
    MARKER_PREFIX,
    MOVE_PREFIX,
    READY_QUESTION,
    REPLY_PREFIX,
)

INBOXES = "_INBOX.>"
ANSWERS_ABROAD = f"{REPLY_PREFIX}*.{INBOXES}"
"""Where a client answers a request that came from another domain."""

_BROKERS_OWN = ("$SYS.>", "$JS.>", "$JSC.>", "$LDS.>", f"{MARKER_PREFIX}>", LETTER_SUBJECT)
"""The system's services, JetStream, the mark by which leaf nodes notice loops, markers of gateways."""
_NOT_PUBLISHED = (*_BROKERS_OWN, "$MQTT.>", CONFIRMATIONS)
_MQTT_OWN = ("$MQTT.sess.>", "$MQTT.JSA.>", "$MQTT.rmsgs.>", "$MQTT.qos2.>", "$MQTT.sub.none")
"""What nats-server keeps of the sessions of others. The last is the subject of nobody; for its sake what
comes by a pattern over `$MQTT.sub.` is compared with what is denied, while each session's own is free."""
_MQTT_STORE = "$MQTT.msgs."
_CONVERSES = (f"{MOVE_PREFIX}>", MIRROR_AGAIN, MIRROR_NEWEST)
"""Where clients of one domain speak with each other by the SDK."""

_STORE_QUESTIONS = (
    "$JS.API.INFO",
    f"$JS.API.STREAM.*.{STREAM}",
    f"$JS.API.CONSUMER.*.{STREAM}",
    f"$JS.API.CONSUMER.*.{STREAM}.>",
    f"$JS.FC.{STREAM}.>",
)
_WATCHED = tuple(f"$SYS.REQ.SERVER.{what}" for what in ("PING.STATSZ", "*.CONNZ", "*.LEAFZ", "*.KICK"))
_TOLD = ("$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.*.DISCONNECT", "$SYS.SERVER.*.CLIENT.AUTH.ERR")


def data_users(security: BrokerSecurity) -> Iterator[str]:
    """Users of the account in which applications, gateways and edges are."""
    for user in security.users:
        if user.client:
            yield from key_users(user, key_client_rights(user, security), [PLAIN])
            yield from password_users(user, password_client_rights(user, security), [PLAIN, MQTT])
        elif user.name in _DATA_USERS:
            connections, rights = _of_ours(user, security.domain)
            yield from key_users(user, rights, connections)


_DATA_USERS = (EDGE_USER, GATEWAY_USER, PROBE_USER, RECORDER_USER)


def _of_ours(user: User, domain: str) -> tuple[list[str], Rights]:
    """How a user of ours comes, and its rights; an edge and a gateway carry whatever there is."""
    if user.name == PROBE_USER:
        markers = f"{MARKER_PREFIX}{domain}.>"
        said = Subjects(allow=(markers, f"{RETAINED}>", *_STORE_QUESTIONS))
        heard = Subjects(allow=(markers, f"{RETAINED}>", f"{SESSION_PREFIX}>", _inbox(user)))
        return [PLAIN], Rights(said, heard)
    if user.name == RECORDER_USER:
        return [PLAIN], Rights(publish=Subjects(allow=()))
    return [LEAF], Rights()


def system_users(security: BrokerSecurity) -> Iterator[str]:
    """Users of nats-server's system account, who watch the broker and may send connections away."""
    for user in security.users:
        if user.name in (AGENT_USER, HOST_USER) and not user.client:
            own = _inbox(user)  # also what it says to itself there, by which a delay is measured
            told = _TOLD if user.name == HOST_USER else ()
            rights = Rights(Subjects(allow=(*_WATCHED, own)), Subjects(allow=(own, *told)))
            yield from key_users(user, rights, [PLAIN])


def key_client_rights(user: User, security: BrokerSecurity) -> Rights:
    """Of a client that comes with its key, which no MQTT client does."""
    rights = _client_rights(user, security)
    return Rights(rights.publish, _denying(rights.subscribe, ["$MQTT.>"]))


def password_client_rights(user: User, security: BrokerSecurity) -> Rights:
    """Of a client that comes with a password, perhaps by MQTT: it must be served what is stored for it.

    nats-server judges a stored message under the subject where it is stored, so what is denied is denied
    there, too.
    """
    rights = _client_rights(user, security)
    stored = [f"{_MQTT_STORE}{subject}" for subject in _left_to(user, security).subscribe.deny]
    return Rights(rights.publish, _denying(rights.subscribe, [*_MQTT_OWN, *stored]))


def _left_to(user: User, security: BrokerSecurity) -> Rights:
    return security.rights.get(user.name, Rights())


def _client_rights(user: User, security: BrokerSecurity) -> Rights:
    """Where not everything is allowed, a client hears answers to its own requests alone."""
    left = _left_to(user, security)
    asks = (DIRECTIONS_SUBJECT, f"{REPLY_PREFIX}{security.domain}.{READY_QUESTION}")
    publish = _allowing(left.publish, (*_CONVERSES, *asks, INBOXES, ANSWERS_ABROAD))
    subscribe = _allowing(left.subscribe, (*_CONVERSES, *_inboxes(user, security.domain)))
    abroad = (f"{REPLY_PREFIX}{each}.>" for each in security.domains)
    return Rights(
        _denying(publish, _NOT_PUBLISHED), _denying(subscribe, [*_BROKERS_OWN, f"{REPLY_PREFIX}*", *abroad])
    )


def _allowing(subjects: Subjects, more: Sequence[str]) -> Subjects:
    """The same, and what the SDK needs where not everything is allowed anyway."""
    return subjects if subjects.allow is None else Subjects((*subjects.allow, *more), subjects.deny)


def _denying(subjects: Subjects, more: Sequence[str]) -> Subjects:
    return Subjects(subjects.allow, (*more, *subjects.deny))


def _inboxes(user: User, domain: str) -> Iterator[str]:
    """Where a client is answered; at home also in the inbox that is its own in other domains, too."""
    yield _inbox(user)
    if not user.home:
        yield f"_INBOX.{guest_name(user.name, domain)}.>"


def _inbox(user: User) -> str:
    return f"_INBOX.{user.name}.>"
