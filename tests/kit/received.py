"""Messages as a broker would have delivered them to the SDK, and subscriptions that nobody serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mangrove.broker.message_heads import encode_head
from mangrove.client.callbacks import Callbacks
from mangrove.client.message import Message, MessageIds, stamped
from mangrove.client.pending.reading import reading_of
from mangrove.client.publishing import Outcome
from mangrove.client.selection import selection_of
from mangrove.client.subscription import Callback, Subscription
from mangrove.client.usefulness.user_function import UtilityThread
from mangrove.client.usefulness.votes import Votes


async def _respond(reply: str, data: bytes, headers: Mapping[str, str] | None) -> Outcome:
    raise AssertionError("nobody asked")


def received(
    subject: str, data: bytes = b"", headers: Mapping[str, str] | None = None, ids: MessageIds | None = None
) -> Message:
    """A message of an SDK publisher if `ids` are given, else of a plain one."""
    if ids is not None:
        return Message(subject, data, encode_head(stamped(headers, ids)), "", _respond)
    return Message(subject, data, encode_head(headers) if headers else b"", "", _respond)


class Fed:
    """A subscription without a broker: messages are fed by hand."""

    def __init__(
        self,
        subject: str = "s",
        callback: Callback | None = None,
        *,
        voting: bool = False,
        where: str | None = None,
        **reading: Any,
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self.ended: list[Subscription] = []
        self.cut_off: list[Subscription] = []
        self.thread = UtilityThread()
        made = reading_of(subject, self.thread, **reading)

        async def ready(timeout: float) -> None:
            raise AssertionError("nobody waits")

        async def end(subscription: Subscription) -> None:
            self.ended.append(subscription)

        self.subscription = Subscription(
            subject,
            "",
            callback,
            Callbacks(),
            self.dropped,
            ready,
            end,
            made,
            cut_off=self.cut_off.append,
            votes=Votes(made.judge) if voting else None,
            selection=selection_of(where, "", told=True),
        )

    def feed(self, *messages: Message) -> None:
        """One buffer."""
        self.subscription.feed(list(messages), sum(len(each.data) + len(each.head) for each in messages))
