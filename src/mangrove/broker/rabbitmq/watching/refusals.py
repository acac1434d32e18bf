"""Whom a RabbitMQ turned away, from its log."""

from __future__ import annotations

import re

from mangrove.broker.refusals import Refusal
from mangrove.model.audit.entry import AuditKind

_REFUSED = re.compile(r"login (?:was )?(?:refused|failed)|authentication failed", re.IGNORECASE)
_USER = re.compile(r"""user:? ['"](?P<user>[^'"]{0,255})['"]""")
_WAY = re.compile(r"\b(HTTP|MQTT|STOMP)\b")
_ADDRESS = re.compile(r"(?P<host>\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\]):\d+ ->")
_ACCESS = re.compile(r"access_refused: access to (?P<what>.*) refused for user '(?P<user>[^']{0,255})'")
_LOGIN = "authentication error"
MAX_WHAT = 120


def read_refusal(line: bytes) -> Refusal | None:
    """The refusal that a line of the log tells of, if it does; where it came from may be in another line."""
    if b"[error]" not in line and b"[warning]" not in line:
        return None
    text = line.decode(errors="replace")
    if access := _ACCESS.search(text):
        what = access["what"][:MAX_WHAT]
        return Refusal(AuditKind.SUBJECT_REFUSED, "", "client", access["user"], what)
    if _REFUSED.search(text) is None:
        return None
    where, user, way = _ADDRESS.search(text), _USER.search(text), _WAY.search(text)
    return Refusal(
        AuditKind.CLIENT_REFUSED,
        "" if where is None else where["host"].strip("[]"),
        "client" if way is None else way[1].lower(),
        "" if user is None else user["user"],
        _LOGIN,
    )
