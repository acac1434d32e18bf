"""What access rules leave to a client, as RabbitMQ's topic permissions: regular expressions on routing keys.

A key that is published is a subject. A key that is bound is a pattern: it may only ask for what lies under an
allowed pattern, and for nothing that meets a denied one.
"""

from __future__ import annotations

import re

from mangrove.broker.rabbitmq.address import DEFAULT_EXCHANGE, DEFAULT_VHOST
from mangrove.broker.security import Rights, Subjects

NOTHING = "^(?!)"
EVERYTHING = ".*"


def topic_permission(user: str, rights: Rights, exchange: str = DEFAULT_EXCHANGE) -> dict[str, object]:
    """An entry of the definitions."""
    return {
        "user": user,
        "vhost": DEFAULT_VHOST,
        "exchange": exchange,
        "write": _expression(rights.publish, bound=False),
        "read": _expression(rights.subscribe, bound=True),
    }


def _expression(subjects: Subjects, *, bound: bool) -> str:
    if subjects.allow is None and not subjects.deny:
        return EVERYTHING
    if subjects.allow is not None and not subjects.allow:
        return NOTHING
    denied = "|".join(_meeting(each) if bound else _under(each, bound=False) for each in subjects.deny)
    allowed = EVERYTHING
    if subjects.allow is not None:
        allowed = "|".join(_under(each, bound=bound) for each in subjects.allow)
    refusal = f"(?!(?:{denied})$)" if denied else ""
    return f"^{refusal}(?:{allowed})$"


def _under(pattern: str, *, bound: bool) -> str:
    """Keys that lie under a pattern; of those that are bound, only such as ask for nothing else."""
    one = "[^.#]+" if bound else "[^.]+"
    more = r"(?!#(?:\.|$)).+" if bound else ".+"
    words = {"*": one, ">": more}
    return r"\.".join(words.get(word, re.escape(word)) for word in pattern.split("."))


def _meeting(pattern: str) -> str:
    """Keys that, bound, would ask for something under a pattern: `#` may be any words from there on."""
    words = {"*": "[^.]+", ">": ".+"}
    first, *rest = (words.get(word, rf"(?:{re.escape(word)}|\*)") for word in pattern.split("."))
    after = r"(?:\.#)*"  # `a.b.#` matches `a.b`, too
    for word in reversed(rest):
        after = rf"(?:\.#.*|\.{word}{after})"
    return rf"(?:#.*|{first}{after})"
