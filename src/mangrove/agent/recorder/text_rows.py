"""Rows of `message_texts`: a few messages a second, as words.

Only topics whose contract allows it get here (`TopicRules.may_sample_text`). What is kept is bounded, in rows
a second and in bytes a row, and has no words with digits: numbers and most names of accounts are of no use
for learning what words mean.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import nsmallest

from mangrove.agent.recorder.rows import Rows, Second
from mangrove.broker.nats.tap import TextSample
from mangrove.model.congestion.keywords import MAX_KEYWORD_CHARACTERS, keywords_of_header, words_in_order

TEXTS_A_SECOND = 8
MAX_WORD_BYTES = 512
"""Of one row."""
MAX_REMEMBERED = 10_000
"""Topics of which it is known when they were last sampled."""


class TextRows:
    """Chooses topics in turn, so that those that say little are heard beside those that say much."""

    def __init__(self) -> None:
        self._turn = 0
        self._last: OrderedDict[str, int] = OrderedDict()

    def rows(self, second: Second) -> Rows:
        """What is kept of one second; topics whose turn it is not are left out, and counted."""
        said = {topic: words for topic, text in second.seen.texts.items() if (words := sampled_words(text))}
        chosen = nsmallest(TEXTS_A_SECOND, said, key=lambda topic: (self._last.get(topic, 0), topic))
        second.omissions.add("texts of topics whose turn it was not", len(said) - len(chosen))
        self._turn += 1
        for topic in chosen:
            self._last[topic] = self._turn
            self._last.move_to_end(topic)
        while len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)
        return [second.row(topic=topic, words=said[topic]) for topic in chosen]


def sampled_words(text: TextSample) -> str:
    """Keywords, then the words of the body, with commas; as much as fits."""
    return ",".join(_fitting(_words(text)))


def _words(text: TextSample) -> Iterator[str]:
    # The bytes may end within the last word.
    header = text.keywords.decode(errors="replace")
    yield from sorted(keywords_of_header(header).words)
    body = list(words_in_order(text.body, cut=text.cut))
    yield from body[:-1] if text.cut else body


def _fitting(words: Iterable[str]) -> Iterator[str]:
    left = MAX_WORD_BYTES
    for word in words:
        size = len(word.encode()) + 1
        if len(word) > MAX_KEYWORD_CHARACTERS or "," in word or any(letter.isdigit() for letter in word):
            continue
        if size > left:
            return
        left -= size
        yield word
