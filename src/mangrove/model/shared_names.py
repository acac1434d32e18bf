"""Names by which processes that never import each other agree: each is spelled here alone."""

from __future__ import annotations

from mangrove.model.agents.speakers import said_by

# What a process of ours logs once it serves; who started it waits for that.
GATEWAY_READY = "gateway ready"
RECORDER_READY = "recorder ready"
WAN_READY = "wan ready"
LINES_READY = "lines ready"

# What processes are called in logs, and their log and settings files after them.
WAN_PROCESS = "wan"
LINES_PROCESS = "lines"
RECORDER_PROCESS = "recorder"

ID_HEADER = "Mangrove-Id"
"""Header with a message's unique id, which the SDK sets."""
TIME_HEADER = "Mangrove-Time"
"""Header with the time of publishing, in nanoseconds since 1970 UTC, which the SDK sets."""

KEYWORDS_HEADER = "Mangrove-Keywords"
"""Header with what a message is about: words, separated by commas."""
UTILITY_HEADER = "Mangrove-Utility"
"""Header with how useful a message is to any subscriber, from 0 to 1, in its publisher's opinion."""

MIRROR_PREFIX = "_MGR._MIRROR."
"""Before the subject of a message's second copy: it travels from a publisher to the mirror broker, and from
there to those who are connected to it, and never between brokers."""

MIRROR_AGAIN = f"{MIRROR_PREFIX}_AGAIN"
"""Where a subscriber asks the publishers that are connected to the same mirror broker to say again, with the
same ids, what they said last: the payload is what it subscribes to. They go on to say everything twice for
`MIRROR_LEASE_S`, and longer if they are asked again."""
MIRROR_LEASE_S = 10.0

MIRROR_NEWEST = f"{MIRROR_PREFIX}_NEWEST"
"""Where publishers that say things once tell, at the mirror, which of their messages was the last on each
subject: a subscriber that does not get it knows that its primary way is broken, wherever that is."""

PROBE_NAME = "mangrove-probe"
"""What a gateway's probes call themselves at the brokers of their domain."""

SDK_NAME = "mangrove-sdk"
"""How the names begin by which clients of the SDK call themselves at brokers: they can be told to move."""

TAP_NAME = "mangrove-telemetry"
"""What the telemetry tap calls itself at a broker, so that its subscriptions count for nobody's."""


def gateway_process(domain: str, number: int = 1) -> str:
    """What the gateway of a domain, or the second of two, is called as a process."""
    return f"{domain}-gateway" if number == 1 else f"{domain}-gateway{number}"


def gateway_carries_subject(domain: str) -> str:
    """Where the one of two gateways that carries says so, on its domain's management broker."""
    return f"mangrove.{domain}.gateway.carries"


def gateway_interest_subject(domain: str, user: str = "") -> str:
    """Where a gateway tells, on its domain's management broker, who knows what its subscribers want."""
    return said_by(user, domain, "gateway.interest")


def gateway_asks_subject(domain: str, user: str = "") -> str:
    """Where a gateway hears, on its domain's management broker, who asks for more than a contract."""
    return said_by(user, domain, "gateway.asks")


def gateway_status_subject(domain: str) -> str:
    """Where a gateway answers on its domain's management broker."""
    return f"mangrove.{domain}.gateway.status"
