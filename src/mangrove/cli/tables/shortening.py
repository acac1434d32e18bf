"""Names that are too long for their column lose their middle, and what tells them apart stays.

All names of a column are shortened together: where the cut goes depends on where they differ. `…` stands for
what is left out. Pure: text in, text out. Widths are in cells of a terminal; some characters take two.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len

ELLIPSIS = "…"
_SEPARATORS = ".-/_ :"


def printable(text: str) -> str:
    """`text` on one line and without control characters: names come from outside, the terminal is ours."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def shorten(names: Iterable[str], width: int) -> dict[str, str]:
    """Each name in at most `width` cells; different names stay different if any way of cutting keeps them so.

    Short names stay as they are. Of the ways that keep most names apart, the one that cuts nearest to the
    middle is taken; where that does not do, what all names begin with is left out as well.
    """
    distinct = list(dict.fromkeys(names))
    if all(cell_len(name) <= width for name in distinct):
        return {name: name for name in distinct}
    best = _cut(distinct, distinct, width)
    if len(set(best.values())) == len(distinct):
        return best
    shared = _shared_start(distinct)
    if shared > 1:
        rest = [ELLIPSIS + name[shared:] for name in distinct]
        without = _cut(distinct, rest, width)
        if len(set(without.values())) > len(set(best.values())):
            return without
    return best


def distinct_width(names: Iterable[str], least: int) -> int:
    """The smallest width from `least` on in which all names stay different after `shorten`."""
    distinct = set(names)
    longest = max(map(cell_len, distinct), default=0)
    for width in range(least, longest):
        if len(set(shorten(distinct, width).values())) == len(distinct):
            return width
    return max(least, longest)


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken between words; a word longer than a line is folded."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        while cell_len(word) > width:
            part = _start(word, width) or word[0]
            lines[-1] = part
            lines.append("")
            word = word[len(part) :]
        lines[-1] = word
    return [line.rstrip() for line in lines]


def _cut(names: list[str], forms: list[str], width: int) -> dict[str, str]:
    """Every form with its middle left out at the same place; the place that keeps most of them apart."""
    kept = width - 1
    middle = kept // 2
    best: dict[str, str] = {}
    apart = 0
    # Names such as topics are read from the left: a longer start is given up less readily than a longer end.
    for head in sorted(range(kept + 1), key=lambda place: max(2 * (middle - place), place - middle)):
        shown = {
            name: form if cell_len(form) <= width else _start(form, head) + ELLIPSIS + _end(form, kept - head)
            for name, form in zip(names, forms, strict=True)
        }
        if len(set(shown.values())) > apart:
            best, apart = shown, len(set(shown.values()))
        if apart == len(names):
            break
    return best


def _shared_start(names: list[str]) -> int:
    """Length of what all names begin with, up to a separator where there is one."""
    first, last = min(names), max(names)
    length = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    shared = first[:length]
    boundary = max(shared.rfind(separator) for separator in _SEPARATORS) + 1
    return boundary or len(shared)


def _start(text: str, cells: int) -> str:
    if text.isascii():
        return text[:cells]
    taken = 0
    for place, letter in enumerate(text):
        taken += cell_len(letter)
        if taken > cells:
            return text[:place]
    return text


def _end(text: str, cells: int) -> str:
    if text.isascii():
        return text[len(text) - cells :]
    return _start(text[::-1], cells)[::-1]
