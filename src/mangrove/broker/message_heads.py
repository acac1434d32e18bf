"""The head of a message: its headers as they travel, in every frame's body and to every broker of ours.

NATS/1.0[ status[ description]]\\r\\n
name: value\\r\\n …
\\r\\n
"""

from __future__ import annotations

import re
from collections.abc import Mapping

VERSION_LINE = b"NATS/1.0"
STATUS_HEADER = "Status"
DESCRIPTION_HEADER = "Description"
NO_RESPONDERS = b"503"
_CRLF = b"\r\n"
_HALF = re.compile("[\ud800-\udfff]")
"""Of UTF-16; bytes of a command line that are not UTF-8 become such, too."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def header_problem(name: str, value: str) -> str:
    """Why a header cannot be sent, or an empty string."""
    if not _NAME.fullmatch(name):
        return "its name is empty, or has more in it than letters, digits and a few signs"
    if "\r" in value or "\n" in value:
        return "its value is more than one line"
    if not value.isascii() and _HALF.search(value):
        return "its value has half a character in it"
    return ""


def encode_head(headers: Mapping[str, str]) -> bytes:
    """The head for headers that have no problem."""
    lines = "".join(f"{name}: {value.strip()}\r\n" for name, value in headers.items())
    return b"NATS/1.0\r\n" + lines.encode() + _CRLF


def decode_head(head: bytes) -> dict[str, str]:
    """All headers of a head. What is no header is left out: heads come from anybody.

    A name that comes twice has its last value; what is not UTF-8 in a value is replaced.
    """
    first, *lines = head.split(_CRLF)
    headers: dict[str, str] = {}
    status, _, description = first[len(VERSION_LINE) :].strip().partition(b" ")
    if status.isdigit():
        headers[STATUS_HEADER] = status.decode()
        if description:
            headers[DESCRIPTION_HEADER] = description.decode(errors="replace")
    for line in lines:
        name, colon, value = line.partition(b":")
        key = name.strip()
        if colon and key and key.isascii() and not any(byte <= 0x20 for byte in key):
            headers[key.decode()] = value.strip().decode(errors="replace")
    return headers


def status_of(head: bytes) -> bytes:
    """The three digits of a status, if the head has one."""
    return head[9:12] if head.startswith(b"NATS/1.0 ") else b""
