"""Seals the bodies that leave a domain."""

from __future__ import annotations

from mangrove.gateway.sealing.content_keys import ContentKeys
from mangrove.overlay.protocol.bodies import CRLF, WireError, parse_message_line
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sealing.sealed_body import COUNTS, bound_facts
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
        head = key.envelope + COUNTS.pack(self._messages_in(frame.body), key.counter)
        authenticated = head + bound_facts(frame)
        self.sealed += 1
        return head + key.encrypt(frame.body, authenticated)

    def _messages_in(self, body: bytes) -> int:
        """How many messages a body holds, so that who loses it on the way can book them.

        Most follow one with the same line: these are only stepped over.
        """
        count = position = 0
        find, begins, skips = body.find, body.startswith, self._skips
        while (eol := find(CRLF, position)) >= 0:
            line = body[position : eol + 2]
            skip = skips.get(line) or self._skip_of(line)
            if not skip:
                break
            length = len(line) + skip
            position += length
            count += 1
            while begins(line, position):
                position += length
                count += 1
        return count

    def _skip_of(self, line: bytes) -> int:
        """Bytes from the end of a line, with its CRLF, to the next one."""
        try:
            skip = parse_message_line(line[:-2]).skip - 2
        except WireError:
            return 0
        if len(self._skips) >= MAX_KNOWN_LINES:
            self._skips.clear()
        self._skips[line] = skip
        return skip

    def __reduce__(self) -> tuple[type[BlankSealer], tuple[()]]:
        return BlankSealer, ()
