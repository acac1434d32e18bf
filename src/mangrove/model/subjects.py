"""Subjects: validity, wildcards, and which subjects stay inside a domain.

A subject is a list of tokens joined by dots. A pattern may use `*` for exactly one token and, as its last
token, `>` for one or more. MQTT topics arrive as subjects already: nats-server maps `a/b` to `a.b`.
"""

from __future__ import annotations

from collections.abc import Iterator

MAX_SUBJECT_BYTES = 1024
MAX_GROUP_BYTES = 255
MAX_ENUMERATED_TOKENS = 8

REPLY_PREFIX = "_MGR."
"""Subjects under this prefix lead back to a requester: `_MGR.<domain>.<its inbox>`."""

READY_QUESTION = "_READY"
"""`_MGR.<domain>._READY` asks the own gateway, which answers when it has taken in all that was subscribed to
before: a question goes the way of the subscriptions and does not overtake them."""

WAY_BACK_PREFIX = "_AMQP."
"""Where answers go in a domain whose broker has queues for them, and no reply subjects: what follows names
one. To everybody else it is an inbox."""

LETTER_SUBJECT = "_MGL"
"""Messages from gateway to gateway. No broker ever sees them."""


DEAD_LETTER_PREFIX = "dead.letter."
"""What could not be transformed is told under this prefix and its own subject, where that was tried."""


MARKER_PREFIX = "$MGV."
"""Markers by which a gateway measures how long messages are inside its domain. They never leave it."""


MOVE_PREFIX = "_MGM."
"""Markers by which a client that moves between brokers of a domain knows where messages come through."""


def ingress_marker_subject(domain: str) -> str:
    """Where markers go from a client of the head broker to the gateway."""
    return f"{MARKER_PREFIX}{domain}.in"


def egress_marker_subject(domain: str) -> str:
    """Where markers go from the gateway to clients of the domain's brokers."""
    return f"{MARKER_PREFIX}{domain}.out"


def subject_problem(text: str, *, wildcards: bool) -> str:
    """Why `text` is not a valid subject (or pattern, if `wildcards`), or an empty string if it is one."""
    if not text:
        return "it is empty"
    if len(text.encode(errors="replace")) > MAX_SUBJECT_BYTES:  # half a character is not printable, either
        return f"it is longer than {MAX_SUBJECT_BYTES} bytes"
    if " " in text or not text.isprintable():  # all other white space is not printable
        return "it contains white space or a control character"
    tokens = text.split(".")
    if "" in tokens:
        return "it has an empty token (two dots in a row, or a dot at an end)"
    for position, token in enumerate(tokens):
        if token in ("*", ">") and not wildcards:
            return f"it contains the wildcard {token!r}"
        if token == ">" and position != len(tokens) - 1:
            return "'>' may only be the last token"
    return ""


def group_problem(text: str) -> str:
    """Why `text` cannot name a queue group in other domains, or an empty string if it can."""
    if not text:
        return "it is empty"
    if len(text.encode(errors="replace")) > MAX_GROUP_BYTES:
        return f"it is longer than {MAX_GROUP_BYTES} bytes"
    if " " in text or not text.isprintable():  # all other white space is not printable
        return "it contains white space or a control character"
    return ""


def matches(pattern: str, subject: str) -> bool:
    """Whether the literal `subject` falls under `pattern`."""
    return covers(pattern, subject)


def covers(wide: str, narrow: str) -> bool:
    """Whether every subject that falls under `narrow` also falls under `wide`."""
    wide_tokens = wide.split(".")
    narrow_tokens = narrow.split(".")
    for position, token in enumerate(wide_tokens):
        if token == ">":
            return len(narrow_tokens) > position
        if position == len(narrow_tokens):
            return False
        other = narrow_tokens[position]
        if token == "*":
            if other == ">":
                return False
        elif token != other:
            return False
    return len(wide_tokens) == len(narrow_tokens)


def patterns_over(subject: str) -> Iterator[str | None]:
    """All patterns with wildcards that cover a literal subject; None for the rest, if they are many."""
    tokens = subject.split(".")
    starts = [""]
    for number, token in enumerate(tokens):
        yield from (f"{start}>" for start in starts)
        if number == MAX_ENUMERATED_TOKENS:
            yield None
            return
        dot = "." if number < len(tokens) - 1 else ""
        starts = [f"{start}{each}{dot}" for start in starts for each in (token, "*")]
    yield from (start for start in starts if start != subject)


def is_internal(subject: str) -> bool:
    """Whether a subject belongs to the machinery of one site and is never federated.

    `$…` is the broker's own traffic (JetStream, MQTT sessions, system events); `_…` are inboxes and our own
    reply subjects, which travel by their own rule.
    """
    return subject.startswith(("$", "_"))


def is_machinery(subject: str) -> bool:
    """Whether a subject belongs to brokers or to gateways: nobody's reply may lead there, nor a message from
    another domain."""
    return subject.startswith(("$", "_MG"))
