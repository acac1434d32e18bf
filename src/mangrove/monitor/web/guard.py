"""Who may speak to the monitor: pages that it served itself, under a name of this machine.

A page of somebody else in the same browser must not read a federation's state, nor act on it: not by a
request across sites, and not by a name of its own that leads to this machine.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MAX_URL_BYTES = 4_096
MAX_BODY_BYTES = 64 << 10
_LOCAL = frozenset({"localhost", socket.gethostname().casefold()})
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
"""What a browser may load: nothing from elsewhere. Vue compiles its templates, so `eval` is needed."""


def own_name(host: str) -> bool:
    """Whether a `Host` header names this machine: by an address, or by a name that is its own."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:  # a bracket without the other one
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.casefold() in _LOCAL
    return True


def same_origin(origin: str, host: str) -> bool:
    """Whether a page that asks came from here; those that are no browsers say nothing."""
    try:
        return not origin or urlsplit(origin).netloc.casefold() == host.casefold()
    except ValueError:
        return False


class Guard:
    """Refuses, with a sentence, what does not come from here, and what is too long to be meant."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.refused = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or one WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        problem = _problem(headers, scope)
        if not problem:
            await self._app(scope, receive, _with_policy(send))
            return
        self.refused += 1
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": problem})
        else:
            await PlainTextResponse(problem, status_code=403)(scope, receive, send)


def _problem(headers: dict[str, str], scope: Scope) -> str:
    host = headers.get("host", "")
    if not own_name(host):
        return "this monitor is reached by an address or by the name of its machine"
    if not same_origin(headers.get("origin", ""), host):
        return "another site's page may not ask"
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_URL_BYTES:
        return "the address is too long"
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MAX_BODY_BYTES:
        return "the request is too long"
    return ""


def _with_policy(send: Send) -> Send:
    async def sending(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = message.setdefault("headers", [])
            assert isinstance(headers, list)
            headers += [
                (b"content-security-policy", POLICY.encode()),
                (b"x-content-type-options", b"nosniff"),
                (b"referrer-policy", b"no-referrer"),
            ]
        await send(message)

    return sending  # type: ignore[return-value]
