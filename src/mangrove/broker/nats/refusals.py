"""Whom a nats-server turned away, from its log.

The system account tells of failed logins alone. The log tells of these, of TLS handshakes that failed, and of
subjects that a client may not use; and it tells them of management brokers, too. What clients choose stands
in quotes there, so that no name can look like another line.
"""

from __future__ import annotations

import re

from mangrove.broker.refusals import Refusal
from mangrove.model.audit.entry import AuditKind

_LINE = re.compile(
    r"^\[\d+\] \S+ \S+ \[ERR\] (?P<address>\S+) - (?P<way>[a-z]+)(?:_ws)?:\d+"
    r'(?P<names>(?: - "(?:[^"\\]|\\.)*"){0,2}) - (?P<what>.*)$'
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SID = re.compile(r", SID .*$")
_LABEL = re.compile(r"^(?:nkey|user):")
_WAYS = {"cid": "client", "wid": "websocket", "mid": "mqtt", "lid": "leaf node", "rid": "route"}
_LOGIN = "authentication error"
_TLS = re.compile(r"^TLS (?:\w+ )?handshake error")
_SUBJECT = re.compile(r"^(?:Publish|Subscription) Violation")
MAX_WHAT = 120


def read_refusal(line: bytes) -> Refusal | None:
    """The refusal that a line of the log tells of, if it does."""
    if b"[ERR]" not in line:
        return None
    found = _LINE.match(line.decode(errors="replace"))
    if found is None:
        return None
    what = found["what"]
    names = _QUOTED.findall(found["names"])
    host = found["address"].rpartition(":")[0].strip("[]")
    way = _WAYS.get(found["way"], found["way"])
    if what.startswith(_LOGIN):
        user = next(iter(_QUOTED.findall(what)), "")
        return Refusal(AuditKind.CLIENT_REFUSED, host, way, user, _LOGIN)
    if _TLS.match(what):
        return Refusal(AuditKind.CLIENT_REFUSED, host, way, "", what[:MAX_WHAT])
    if _SUBJECT.match(what):
        user = _LABEL.sub("", names[-1].rpartition("/")[2]) if names else ""
        return Refusal(AuditKind.SUBJECT_REFUSED, host, way, user, _SID.sub("", what)[:MAX_WHAT])
    return None
