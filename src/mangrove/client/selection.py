"""What a subscription selects by headers: kept to here, and made known to whoever sends."""

from __future__ import annotations

import secrets

from mangrove.client.message import Message
from mangrove.errors import InputError
from mangrove.model.selectors.group_names import selecting_group
from mangrove.model.selectors.selector import Selector

TAG_BYTES = 6


class Selection:
    """A selector, and what it has left out.

    Every message that comes is judged here, whatever was judged before: what comes depends on what others in
    the domain want, and on who knows of selectors.
    """

    def __init__(self, selector: Selector, *, told: bool) -> None:
        """`told`: the broker is told of it, and so the gateway and other domains."""
        self._selector = selector
        self._told = told
        self.left_out = 0

    @property
    def text(self) -> str:
        """The selector, as it is always written."""
        return self._selector.text

    def of(self, messages: list[Message]) -> list[Message]:
        """Those that are selected."""
        wants = self._selector.wants
        selected = [message for message in messages if wants(message.headers)]
        self.left_out += len(messages) - len(selected)
        return selected

    def new_group(self) -> str:
        """What a broker is told, by the name of a queue group that is new; empty: like everybody else.

        While a subscription moves it has two, and each must bring everything.
        """
        if not self._told:
            return ""
        return selecting_group(secrets.token_urlsafe(TAG_BYTES), self._selector)


def selection_of(where: str | None, queue: str, *, told: bool) -> Selection | None:
    """Check what a user asks for; SelectorError tells where a selector is wrong."""
    if where is None:
        return None
    if not isinstance(where, str):
        raise InputError(f"where must be a text, not {type(where).__name__}")
    if queue:
        raise InputError(
            "a member of a queue group cannot select: what it leaves out, no other member would get",
            hint="leave out `queue` or `where`, or publish on subjects by which members can choose",
        )
    return Selection(Selector(where), told=told)
