"""Whom a RabbitMQ turned away, from its log."""

from __future__ import annotations

import re

from mangrove.broker.refusals import Refusal
from mangrove.model.audit.entry import AuditKind

_LOGIN = re.compile(
    r"(?P<way>AMQP|HTTP|MQTT|STOMP)?[^']*(?:access_refused|login failed|authentication failed)[^']*"
    r"(?:user '(?P<user>[^']{0,255})')?",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?P<host>\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\]):\d+ ?->")
MAX_WHAT = 120


def read_refusal(line: bytes) -> Refusal | None:
    """The refusal that a line of the log tells of, if it does."""
    if b"[error]" not in line and b"[warning]" not in line:
        return None
    text = line.decode(errors="replace")
    _, _, said = text.partition("> ")
    found = _LOGIN.search(said)
    if found is None:
        return None
    where = _ADDRESS.search(said)
    way = (found["way"] or "AMQP").lower()
    return Refusal(
        AuditKind.CLIENT_REFUSED,
        "" if where is None else where["host"].strip("[]"),
        "client" if way == "amqp" else way,
        found["user"] or "",
        "authentication error",
    )
