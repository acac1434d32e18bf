"""Ways back for requests: an AMQP client names a queue and a number, the federation has subjects.

A request that leaves the domain asks for its answer on `_AMQP.<token>`; the token holds queue and number, and
is signed, so that nobody in another domain can use it to write to a queue that nobody named to him. For a
request that comes in it is the other way round: the answer is asked for in a queue of the gateway, and the
number that a responder repeats is the subject to answer to.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from mangrove.model.subjects import REPLY_PREFIX, WAY_BACK_PREFIX, subject_problem

MAC_BYTES = 12


class ReplyTokens:
    """Makes and reads the tokens of one gateway's life."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def subject(self, queue: str, number: str) -> str:
        """Where the answer to a request is to be published in the federation."""
        named = queue.encode() + b"\0" + number.encode()
        token = base64.urlsafe_b64encode(self._mac(named) + named).rstrip(b"=")
        return WAY_BACK_PREFIX + token.decode()

    def queue_of(self, subject: str) -> tuple[str, str] | None:
        """Queue and number of a request that this gateway sent out; None if it did not."""
        text = subject.removeprefix(WAY_BACK_PREFIX)
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (ValueError, binascii.Error):
            return None
        mac, named = raw[:MAC_BYTES], raw[MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(named)):
            return None
        queue, _, number = named.partition(b"\0")
        return queue.decode(), number.decode()

    def _mac(self, named: bytes) -> bytes:
        return hmac.digest(self._key, named, hashlib.sha256)[:MAC_BYTES]


def is_way_back(number: str) -> bool:
    """Whether the number that a responder repeated is the subject of somebody who asked."""
    return number.startswith(REPLY_PREFIX) and not subject_problem(number, wildcards=False)
