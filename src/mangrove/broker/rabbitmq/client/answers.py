"""Ways back for a client: AMQP names a queue and a number, the SDK has subjects.

A message that asks for an answer is handed to the application with `_AMQP.<queue and number>` as its reply,
and what is published there goes to that queue. A client that asks for answers on a subject to which it has
subscribed names the queue of its subscription, and the subject as the number, which is repeated to it.
"""

from __future__ import annotations

import base64
import binascii

from mangrove.model.subjects import WAY_BACK_PREFIX


def reply_subject(queue: str, number: str) -> str:
    """The subject by which an answer finds its way."""
    named = base64.urlsafe_b64encode(f"{queue}\0{number}".encode()).rstrip(b"=")
    return WAY_BACK_PREFIX + named.decode()


def way_of(subject: str) -> tuple[str, str] | None:
    """Queue and number of such a subject; None if it is none."""
    if not subject.startswith(WAY_BACK_PREFIX):
        return None
    text = subject.removeprefix(WAY_BACK_PREFIX)
    try:
        named = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (ValueError, binascii.Error):
        return None
    queue, separator, number = named.partition("\0")
    return (queue, number) if separator and queue else None
