"""A message on its way through a transform, and how it is written down again afterwards."""

from __future__ import annotations

import re

import msgspec

from mangrove.model.mediation.transform import Transform
from mangrove.model.subjects import DEAD_LETTER_PREFIX, MAX_SUBJECT_BYTES
from mangrove.overlay.protocol.bodies import CRLF, Message

TOO_LONG = f"{DEAD_LETTER_PREFIX}subject-too-long"
"""In place of a subject that nothing fits in front of; a header has it."""
REASON_HEADER = "Mangrove-Dead-Reason"
TRANSFORM_HEADER = "Mangrove-Dead-Transform"
SUBJECT_HEADER = "Mangrove-Dead-Subject"
CUT_HEADER = "Mangrove-Dead-Cut"
OVERHEAD_BYTES = 256
"""What a message costs to keep besides its bytes."""
_DESCRIBED = re.compile(rb"\r?\n[^\S\n]*mangrove-dead-[^\n]*?(?=\r?\n|\Z)", re.IGNORECASE)
"""Headers that would falsify what a letter tells. Some readers end lines by a line feed alone."""
_ODD = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]+")


class Named(msgspec.Struct, frozen=True, eq=False):
    """A transform, as contracts call it."""

    name: str
    transform: Transform | None
    """None: the gateway knows none of this name."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """One message, and what it is for. Without a transform it only waits for its turn."""

    message: Message
    origin: str
    head: bytes
    payload: bytes
    use: Named | None

    @property
    def size_bytes(self) -> int:
        """What it costs to keep."""
        return len(self.head) + len(self.payload) + OVERHEAD_BYTES


def split(messages: bytes, line_bytes: int, message: Message, origin: str, use: Named | None) -> list[Job]:
    """The messages of a run, which all have the same line; `message` is what becomes of that."""
    length = line_bytes + message.skip
    start = line_bytes + len(CRLF)
    middle = start + max(message.header_bytes, 0)
    end = start + message.size_bytes
    return [
        Job(message, origin, messages[at + start : at + middle], messages[at + middle : at + end], use)
        for at in range(0, len(messages), length)
    ]


def written(message: Message, head: bytes, payload: bytes) -> bytes:
    """A message of the body format: all as it was, but for its payload."""
    size = len(head) + len(payload)
    sized = Message(message.subject, message.reply, message.header_bytes, size, message.groups)
    line = sized.line(sized.subject, sized.reply, sized.groups)
    return b"%b\r\n%b%b\r\n" % (line, head, payload)


def letter_subject(subject: str) -> str:
    """What a message of a subject is told on that could not be transformed."""
    told = f"{DEAD_LETTER_PREFIX}{subject}"
    return told if len(told.encode()) <= MAX_SUBJECT_BYTES else TOO_LONG


def dead_letter(job: Job, reason: str, groups: tuple[str, ...], max_bytes: int) -> bytes:
    """What is told of a message that could not be transformed: itself, with the reason in its headers.

    Its own headers stay, the id in front, but for what an earlier letter was described by; what would be
    larger than a message may be loses its end.
    """
    subject = letter_subject(job.message.subject)
    added = {
        REASON_HEADER: reason,
        TRANSFORM_HEADER: "" if job.use is None else job.use.name,
        SUBJECT_HEADER: job.message.subject,
    }
    head, payload = _with(job.head, added), job.payload
    if len(head) + len(payload) > max_bytes:
        head = _with(job.head, {**added, CUT_HEADER: str(len(payload))})
        if len(head) > max_bytes:
            head = _with(b"", {**added, CUT_HEADER: str(len(payload))})
        payload = payload[: max(max_bytes - len(head), 0)]
    message = Message(subject, "", len(head), len(head) + len(payload), groups)
    return written(message, head, payload)


def _with(head: bytes, added: dict[str, str]) -> bytes:
    """A head with further headers behind its own, none of which looks like them."""
    before = _DESCRIBED.sub(b"", head.removesuffix(CRLF)) if head else b"NATS/1.0\r\n"
    lines = "".join(f"{name}: {_ODD.sub(' ', value).strip()}\r\n" for name, value in added.items())
    return before + lines.encode() + CRLF
