"""What a gateway has published to a RabbitMQ and the broker has not confirmed yet: kept, and sent again.

A broker that is killed loses what it had not confirmed, and what it had is on its disk or was for queues that
died with it. So whatever is not confirmed when the connection breaks is published again, in its order, before
anything new. What the broker had taken although it could not say so comes twice; its id tells.

A broker that refuses a message closes the channel, and does not say which one it was. What is left is then
published one by one, and the one that is refused again is counted and left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from mangrove.broker.rabbitmq.wire.connection import AmqpConnection

MAX_UNCONFIRMED = 20_000
MAX_UNCONFIRMED_BYTES = 32 << 20
"""While so much is not confirmed, the gateway holds back what else comes."""
RESEND_S = 1.0
"""What is left of a lost connection waits so long for something newer: by then subscribers are back."""
NOT_TAKEN = "RabbitMQ did not take it"


class Publisher:
    """The publishing half of an attachment; it outlives connections."""

    def __init__(self, writable: Callable[[bool], None], not_taken: Callable[[str, int], None]) -> None:
        self._writable = writable
        self._not_taken = not_taken
        self._connection: AmqpConnection | None = None
        self._unconfirmed: dict[int, bytes] = {}
        self._bytes = 0
        self._left: deque[bytes] = deque()
        self._suspects = 0
        """So many of the oldest were under way when one of them was refused: they go one by one."""
        self._resending: asyncio.TimerHandle | None = None
        self._number = 0
        self._socket_full = False
        self._told_full = False
        self.repeated = 0
        """How many messages were published again."""

    @property
    def unconfirmed(self) -> int:
        """Messages that the broker has not confirmed."""
        return len(self._unconfirmed) + len(self._left)

    def attached(self, connection: AmqpConnection) -> None:
        """Publish by this connection, whose channel confirms; its first publication is number one."""
        self._connection = connection
        connection.on_confirm = self._confirmed
        connection.on_writable = self._socket_writable
        self._number = 0
        self._socket_full = self._told_full = False
        if self._left:
            self._resending = asyncio.get_running_loop().call_later(RESEND_S, self._resend)

    def lost(self, *, refused: bool = False) -> None:
        """The connection is gone; what comes before there is another one is newer than what is left.

        `refused`: the broker closed it because of something that was published.
        """
        self._connection = None
        if refused and not self._suspects:
            self._suspects = len(self._unconfirmed)
        elif refused and self._unconfirmed:  # it was alone
            self._bytes -= sum(map(len, self._unconfirmed.values()))
            self._suspects -= len(self._unconfirmed)
            self._not_taken(NOT_TAKEN, len(self._unconfirmed))
            self._unconfirmed.clear()
        self._left.extendleft(reversed(self._unconfirmed.values()))
        self._unconfirmed.clear()
        self._stop_waiting()

    def publish(self, messages: Sequence[bytes]) -> None:
        """Publish messages, each of which is whole frames."""
        if self._left:
            self._resend()
        if self._left or self._suspects:
            self._keep(messages)
        else:
            self._write(messages)

    def _resend(self) -> None:
        self._stop_waiting()
        if self._connection is None or (self._suspects and self._unconfirmed):
            return
        left = [self._left.popleft() for _ in range(1 if self._suspects else len(self._left))]
        self.repeated += len(left)
        self._bytes -= sum(map(len, left))
        self._write(left)

    def _write(self, messages: Sequence[bytes]) -> None:
        if self._connection is None:
            # The owner holds messages back while it knows that nobody is there.
            self._keep(messages)
            return
        number = self._number
        unconfirmed = self._unconfirmed
        for message in messages:
            number += 1
            unconfirmed[number] = message
        self._number = number
        data = b"".join(messages)
        self._bytes += len(data)
        self._connection.write(data)
        self._tell()

    def _keep(self, messages: Sequence[bytes]) -> None:
        self._left.extend(messages)
        self._bytes += sum(map(len, messages))
        self._tell()

    def _confirmed(self, number: int, multiple: bool, taken: bool) -> None:
        unconfirmed = self._unconfirmed
        if multiple:
            numbers = []
            for each in unconfirmed:
                if each > number:
                    break
                numbers.append(each)
        else:
            numbers = [number] if number in unconfirmed else []
        for each in numbers:
            self._bytes -= len(unconfirmed.pop(each))
        if not taken and numbers:
            self._not_taken(NOT_TAKEN, len(numbers))
        if self._suspects and numbers:
            self._suspects -= len(numbers)
            if self._left:
                self._resend()
        self._tell()

    def _socket_writable(self, writable: bool) -> None:
        self._socket_full = not writable
        self._tell()

    def _tell(self) -> None:
        """Tell the owner when there is no room any more, and when half of it is free again."""
        share = 0.5 if self._told_full else 1.0
        full = (
            self._socket_full
            or self.unconfirmed > share * MAX_UNCONFIRMED
            or self._bytes > share * MAX_UNCONFIRMED_BYTES
        )
        if full != self._told_full:
            self._told_full = full
            self._writable(not full)

    def _stop_waiting(self) -> None:
        if self._resending is not None:
            self._resending.cancel()
            self._resending = None
