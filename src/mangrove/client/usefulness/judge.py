"""Judges messages for one subscription: by the user's function, by keywords, or by what publishers claim."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from mangrove.client.message import Message
from mangrove.client.usefulness.headers import (
    KEYWORDS_START,
    UTILITY_START,
    claimed_utility,
    header_of,
)
from mangrove.client.usefulness.user_function import UserFunction
from mangrove.model.congestion.keywords import Keywords, keyword_utility, keywords_of_header, keywords_of_text

log = logging.getLogger(__name__)

MAX_REMEMBERED = 512
MAX_REMEMBERED_CHARACTERS = 1024
"""Messages about the same things often follow each other: their keywords are compared once."""

Told = Callable[[Sequence[float | None]], None]
UtilityOfKeywords = Callable[[frozenset[str]], float]


class Judge:
    """How useful a message is to one subscription: from 0 to 1, or unknown (None)."""

    def __init__(
        self,
        subject: str,
        interests: frozenset[str],
        function: UserFunction | None = None,
        of_keywords: UtilityOfKeywords | None = None,
    ) -> None:
        """`of_keywords` compares a message's keywords with the interests; without it, word by word."""
        self._subject = subject
        self._interests = interests
        self._of_keywords = of_keywords or partial(keyword_utility, interests)
        self._function = function
        self._remembered: dict[str, float] = {}
        self.problems: Counter[str] = Counter() if function is None else function.problems
        """What could not be judged as it was meant to be, by reason."""

    @property
    def opinionated(self) -> bool:
        """Whether the subscriber has an opinion of its own, besides what publishers claim."""
        return bool(self._interests) or self._function is not None

    @property
    def asks(self) -> bool:
        """Whether messages are judged by the user's function (`ask`), so that `utility` knows nothing."""
        return self._function is not None and not self._function.given_up

    def ask(self, messages: list[Message], told: Told) -> bool:
        """Have the user's function judge messages; `told` is called later, if this returns true."""
        return self._function is not None and self._function.begin(messages, told)

    def utility(self, message: Message) -> float | None:
        """Judge at once, without the user's function; where there is one, nothing else counts."""
        if self._function is not None:
            return None
        if self._interests:
            listed = header_of(message, KEYWORDS_START)
            if listed is not None:
                return self._by_header(listed)
            keywords = keywords_of_text(message.data)
            if keywords.words:
                return self._by_keywords(keywords)
        claimed = header_of(message, UTILITY_START)
        return None if claimed is None else self._by_claim(claimed)

    def _by_header(self, listed: str) -> float:
        utility = self._remembered.get(listed)
        if utility is None:
            utility = self._by_keywords(keywords_of_header(listed))
            if len(listed) <= MAX_REMEMBERED_CHARACTERS:
                if len(self._remembered) >= MAX_REMEMBERED:
                    self._remembered.clear()
                self._remembered[listed] = utility
        return utility

    def _by_keywords(self, keywords: Keywords) -> float:
        if keywords.cut:
            self.note("keywords cut", "lists more keywords than are read; the rest is left out")
        return self._of_keywords(keywords.words)

    def _by_claim(self, text: str) -> float | None:
        claimed = claimed_utility(text)
        if claimed is None:
            self.note("unreadable utility header", "claims a utility that is no number; it is ignored")
            return None
        if not 0 <= claimed <= 1:
            self.note("utility header out of range", "claims a utility outside of 0 to 1; it is clamped")
        return min(max(claimed, 0.0), 1.0)

    def note(self, problem: str, explanation: str) -> None:
        """Count a problem, and explain it the first time; `explanation` continues "a message on …"."""
        self.problems[problem] += 1
        if self.problems[problem] == 1:
            log.warning("a message on %s %s", self._subject, explanation)
