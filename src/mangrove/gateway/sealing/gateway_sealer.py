"""Seals the bodies that leave a domain."""

from __future__ import annotations

from mangrove.gateway.sealing.content_keys import ContentKeys
from mangrove.gateway.sealing.key_schedule import digest_of
from mangrove.overlay.protocol.bodies import CRLF, WireError, parse_message_line
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sealing.sealed_body import SealedBody, bound_facts
from mangrove.overlay.sealing.sealer import BlankSealer

MAX_KNOWN_LINES = 1 << 14


class GatewaySealer:
    """The sealer of one gateway life. It is never written down: a recording gets a blank one in its place."""

    def __init__(self, keys: ContentKeys) -> None:
        self._keys = keys
        self._skips: dict[bytes, int] = {}
        self.sealed = 0
        """Bodies."""

    def seal(self, frame: Frame) -> bytes:
        """The body of a new frame, sealed for its destinations."""
        key = self._keys.of(frame.flow_id, frame.destinations)
        body = SealedBody(key.envelope, self._messages_in(frame.body), key.counter, b"", ())
        authenticated = body.envelope + body.counts + bound_facts(frame)
        ciphertext = key.encrypt(frame.body, authenticated)
        seals: tuple[bytes, ...] = ()
        if key.provers:
            digest = digest_of((authenticated,), ciphertext)
            seals = tuple(prove(digest) for prove in key.provers)
        self.sealed += 1
        return body._replace(ciphertext=ciphertext, seals=seals).encode()

    def _messages_in(self, body: bytes) -> int:
        """How many messages a body holds, so that who loses it on the way can book them."""
        count = position = 0
        find, skips = body.find, self._skips
        while (eol := find(CRLF, position)) >= 0:
            line = body[position:eol]
            skip = skips.get(line)
            if skip is None:
                skip = self._skip_of(line)
                if not skip:
                    break
            position = eol + skip
            count += 1
        return count

    def _skip_of(self, line: bytes) -> int:
        try:
            skip = parse_message_line(line).skip
        except WireError:
            return 0
        if len(self._skips) >= MAX_KNOWN_LINES:
            self._skips.clear()
        self._skips[line] = skip
        return skip

    def __reduce__(self) -> tuple[type[BlankSealer], tuple[()]]:
        return BlankSealer, ()
