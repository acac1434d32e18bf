"""Subjects on a domain's management broker that belong to one user each.

Where clients log in, a broker lets a user publish under its own `from.<user>` and hear its own `to.<user>`,
and nobody else's: by the subject on which something comes its speaker is known. Where nobody logs in there is
no user, and everybody uses the same subjects.
"""

from __future__ import annotations

SPEAKER = "from"
HEARER = "to"
ANY_USER = "*"


def said_by(user: str, domain: str, what: str) -> str:
    """Where a user, or any with `*`, says something to the agent or the gateway of a domain."""
    return f"mangrove.{domain}.{SPEAKER}.{user}.{what}" if user else f"mangrove.{domain}.{what}"


def told_to(user: str, domain: str, what: str) -> str:
    """Where a user is told something by the agent or the gateway of a domain."""
    return f"mangrove.{domain}.{HEARER}.{user}.{what}" if user else f"mangrove.{domain}.{what}"


def speaker_of(subject: str) -> str:
    """The user on whose subject something came; empty if the subject is nobody's."""
    tokens = subject.split(".", 4)
    return tokens[3] if len(tokens) == 5 and tokens[2] == SPEAKER else ""


def unspoken(subject: str) -> str:
    """The same subject without its speaker."""
    tokens = subject.split(".", 4)
    return f"{tokens[0]}.{tokens[1]}.{tokens[4]}" if len(tokens) == 5 and tokens[2] == SPEAKER else subject


def client_may_publish(user: str, domain: str) -> tuple[str, ...]:
    """All that a client's user may publish on the management broker of a domain."""
    return (said_by(user, domain, ">"),)


def client_may_hear(user: str, domain: str) -> tuple[str, ...]:
    """All that a client's user may subscribe to on the management broker of a domain, answers apart."""
    everybody = ("directory", "agent.started", "terms")
    return (told_to(user, domain, ">"), *(f"mangrove.{domain}.{each}" for each in everybody))
