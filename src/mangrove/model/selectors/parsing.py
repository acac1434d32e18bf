"""Reads selectors: the conditions of SQL, as far as they are about headers and values.

    selector := term OR term …
    term     := factor AND factor …
    factor   := NOT factor | (selector) | test
    test     := header sign value | value sign header | header IS [NOT] NULL
              | header [NOT] BETWEEN value AND value | header [NOT] IN (value, …)
              | header [NOT] LIKE text [ESCAPE character]

By recursive descent, in bounded depth, over text of bounded length: whoever subscribes may send anything.
"""

from __future__ import annotations

from mangrove.model.selectors.conditions import (
    AllOf,
    AnyOf,
    Between,
    Comparison,
    Condition,
    Like,
    Missing,
    Not,
    OneOf,
    Value,
)
from mangrove.model.selectors.words import Kind, SelectorError, Word, words_of

MAX_CHARACTERS = 1000
MAX_DEPTH = 20
SIGNS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Signs between a header and a value, and what they are the other way round."""


def parse(text: str) -> Condition:
    """The condition that a text is; SelectorError tells the first mistake."""
    if len(text) > MAX_CHARACTERS:
        raise SelectorError(text, MAX_CHARACTERS, f"it is longer than {MAX_CHARACTERS} characters")
    return _Reader(text).whole()


class _Reader:
    """Goes over the words once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = words_of(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._any_of()
        if self._word.kind is not Kind.END:
            raise self._unexpected("AND, OR or the end")
        return condition

    # -- words --------------------------------------------------------------------------------------------

    @property
    def _word(self) -> Word:
        return self._words[self._next]

    def _take(self) -> Word:
        word = self._word
        self._next += 1
        return word

    def _takes(self, kind: Kind, *texts: str) -> bool:
        """Go on if the next word is one of these; whether it was."""
        found = self._word.kind is kind and self._word.text in texts
        self._next += found
        return found

    def _expect(self, kind: Kind, text: str) -> None:
        if not self._takes(kind, text):
            raise self._unexpected(text)

    def _unexpected(self, expected: str) -> SelectorError:
        word = self._word
        found = "the end" if word.kind is Kind.END else repr(word.text)
        return SelectorError(self._text, word.position, f"{expected} is expected, not {found}")

    # -- conditions ---------------------------------------------------------------------------------------

    def _any_of(self) -> Condition:
        terms = [self._all_of()]
        while self._takes(Kind.KEYWORD, "OR"):
            terms.append(self._all_of())
        return terms[0] if len(terms) == 1 else AnyOf(_flat(terms, AnyOf))

    def _all_of(self) -> Condition:
        terms = [self._factor()]
        while self._takes(Kind.KEYWORD, "AND"):
            terms.append(self._factor())
        return terms[0] if len(terms) == 1 else AllOf(_flat(terms, AllOf))

    def _factor(self) -> Condition:
        if self._depth >= MAX_DEPTH:
            raise SelectorError(
                self._text, self._word.position, f"it is nested deeper than {MAX_DEPTH} levels"
            )
        self._depth += 1
        try:
            if self._takes(Kind.KEYWORD, "NOT"):
                return Not(self._factor())
            if self._takes(Kind.SIGN, "("):
                inner = self._any_of()
                self._expect(Kind.SIGN, ")")
                return inner
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> Condition:
        word = self._word
        if word.kind is Kind.VALUE:
            return self._turned_round(self._take())
        if word.kind is not Kind.NAME:
            raise self._unexpected("the name of a header")
        name = str(self._take().value)
        if self._word.kind is Kind.SIGN and self._word.text in SIGNS:
            sign = self._take().text
            return Comparison(name, sign, self._value())
        if self._takes(Kind.KEYWORD, "IS"):
            there = self._takes(Kind.KEYWORD, "NOT")
            self._expect(Kind.KEYWORD, "NULL")
            return Not(Missing(name)) if there else Missing(name)
        if self._takes(Kind.KEYWORD, "NOT"):
            return Not(self._asked_of(name))
        return self._asked_of(name)

    def _turned_round(self, value: Word) -> Condition:
        if not (self._word.kind is Kind.SIGN and self._word.text in SIGNS):
            raise self._unexpected("a comparison")
        sign = SIGNS[self._take().text]
        name = self._word
        if name.kind is not Kind.NAME:
            raise self._unexpected("the name of a header")
        self._take()
        return Comparison(str(name.value), sign, value.value)

    def _asked_of(self, name: str) -> Condition:
        if self._takes(Kind.KEYWORD, "BETWEEN"):
            low = self._value()
            self._expect(Kind.KEYWORD, "AND")
            return Between(name, low, self._value(like=low))
        if self._takes(Kind.KEYWORD, "IN"):
            self._expect(Kind.SIGN, "(")
            values = [self._value()]
            while self._takes(Kind.SIGN, ","):
                values.append(self._value(like=values[0]))
            self._expect(Kind.SIGN, ")")
            return OneOf(name, tuple(values))
        if self._takes(Kind.KEYWORD, "LIKE"):
            return self._like(name)
        raise self._unexpected("a comparison, IS, BETWEEN, IN or LIKE")

    def _like(self, name: str) -> Like:
        at = self._word.position
        form = self._value(like="")
        escape: Value = ""
        if self._takes(Kind.KEYWORD, "ESCAPE"):
            at_escape = self._word.position
            escape = self._value(like="")
            if len(str(escape)) != 1 or escape in ("%", "_"):
                raise SelectorError(self._text, at_escape, "ESCAPE takes one character, other than % and _")
        rest = iter(str(form))
        if escape and any(each == escape and next(rest, "") not in ("%", "_", escape) for each in rest):
            raise SelectorError(self._text, at, f"after {escape!r} only %, _ or {escape!r} may follow")
        return Like(name, str(form), str(escape))

    def _value(self, like: Value | None = None) -> Value:
        word = self._word
        if word.kind is not Kind.VALUE:
            hint = f"write text in quotes: '{word.value}'" if word.kind is Kind.NAME else ""
            error = self._unexpected("a number, or text in quotes")
            raise SelectorError(self._text, error.position, error.problem, hint or error.hint)
        if like is not None and isinstance(like, str) != isinstance(word.value, str):
            kind = "text in quotes" if isinstance(like, str) else "a number"
            raise self._unexpected(kind)
        return self._take().value


def _flat(terms: list[Condition], kind: type[AnyOf] | type[AllOf]) -> tuple[Condition, ...]:
    """Terms of the same kind within are terms of this one: it is all the same, and one text."""
    return tuple(inner for term in terms for inner in (term.terms if isinstance(term, kind) else (term,)))
