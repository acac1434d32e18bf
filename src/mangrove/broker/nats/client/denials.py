"""What a nats-server does not allow: its complaints, read."""

from __future__ import annotations

import json
import re

from mangrove.broker.client_connection import Denial

_SUBJECT = r'"((?:[^"\\]|\\.)*)"'
_PUBLISH = re.compile(rf"Permissions Violation for Publish to {_SUBJECT}", re.IGNORECASE)
_REPLY = re.compile(rf"Permissions Violation for Publish with Reply of {_SUBJECT}", re.IGNORECASE)
_SUBSCRIBE = re.compile(
    rf"Permissions Violation for Subscription to {_SUBJECT}"
    rf'(?: using queue {_SUBJECT})?(?:, too many tokens)?(?: \(sid "(\d{{1,12}})"\))?',
    re.IGNORECASE,
)


def parse_denial(complaint: str) -> Denial | None:
    """What is not allowed, if that is what a server complains of."""
    if found := _PUBLISH.match(complaint):
        return Denial(publishing=True, subject=_plain(found[1]))
    if found := _REPLY.match(complaint):
        return Denial(publishing=True, subject="", reply=_plain(found[1]))
    if found := _SUBSCRIBE.match(complaint):
        return Denial(
            publishing=False,
            subject=_plain(found[1]),
            queue=_plain(found[2] or ""),
            sid=int(found[3]) if found[3] else None,
        )
    return None


def _plain(quoted: str) -> str:
    """What Go wrote with `%q`; characters that JSON does not escape in the same way are left as they are."""
    if "\\" not in quoted:
        return quoted
    try:
        return str(json.loads(f'"{quoted}"'))
    except ValueError:
        return quoted
