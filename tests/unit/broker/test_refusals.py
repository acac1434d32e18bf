"""Whom a nats-server turned away, as its log tells it; names that clients choose cannot forge a line."""

from __future__ import annotations

import pytest

from mangrove.broker.nats.refusals import read_refusal
from mangrove.model.audit.entry import AuditKind

HEAD = "[4711] 2026/11/16 15:00:00.123456 [ERR] 10.0.0.7:50123 - "


@pytest.mark.parametrize(
    ("line", "kind", "way", "user", "what"),
    [
        ("cid:9 - authentication error", AuditKind.CLIENT_REFUSED, "client", "", "authentication error"),
        (
            'cid:9 - "v1.0:python3:probe" - authentication error - User "edge"',
            AuditKind.CLIENT_REFUSED,
            "client",
            "edge",
            "authentication error",
        ),
        (
            'mid:3 - authentication error - Nkey "UABC"',
            AuditKind.CLIENT_REFUSED,
            "mqtt",
            "UABC",
            "authentication error",
        ),
        (
            "lid:5 - TLS leafnode handshake error: remote error: tls: bad certificate",
            AuditKind.CLIENT_REFUSED,
            "leaf node",
            "",
            "TLS leafnode handshake error: remote error: tls: bad certificate",
        ),
        (
            'cid:7 - "v2:go:evil" - "APP/user:sensor" - Publish Violation - Subject "mangrove.oslo.register"',
            AuditKind.SUBJECT_REFUSED,
            "client",
            "sensor",
            'Publish Violation - Subject "mangrove.oslo.register"',
        ),
        (
            'cid:7 - "a \\" - \\"APP/root" - "APP/sensor" - Subscription Violation - Subject "x.>", SID 77',
            AuditKind.SUBJECT_REFUSED,
            "client",
            "sensor",
            'Subscription Violation - Subject "x.>"',
        ),
    ],
)
def test_lines_of_the_log(line: str, kind: AuditKind, way: str, user: str, what: str) -> None:
    found = read_refusal((HEAD + line).encode())
    assert found is not None
    assert (found.kind, found.host, found.way, found.user, found.what) == (kind, "10.0.0.7", way, user, what)


def test_an_address_of_the_sixth_version_has_no_brackets() -> None:
    found = read_refusal(HEAD.replace("10.0.0.7", "[::1]").encode() + b"cid:9 - authentication error")
    assert found is not None
    assert found.host == "::1"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[1] 2026/11/16 15:00:00 [INF] Server is ready",
        (HEAD + 'cid:9 - "x" - Slow Consumer Detected').encode(),
        b"[1] a b [ERR] no address",
        b"\xff\xfe[ERR]\x00",
    ],
)
def test_other_lines_tell_of_nobody(line: bytes) -> None:
    assert read_refusal(line) is None
