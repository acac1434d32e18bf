"""Subjects and patterns of the federation against binding keys of a topic exchange.

Both are words joined by dots, and `*` is one word in both. `>` is one word or more and stands at the end; `#`
is any number of words, none included, and stands anywhere. So `a.>` is `a.*.#`, and `a.#` is both `a` and
`a.>`. What one side cannot say is asked for more widely, never more narrowly: whoever filters exactly (the
exchange for the domain's queues, the gateway for what leaves the domain) gets all that it may want.
"""

from __future__ import annotations

from mangrove.model.subjects import subject_problem

MAX_KEY_BYTES = 255
ANY_WORDS = "#"


def patterns_of(key: str) -> tuple[str, ...]:
    """Patterns under which every subject falls that a binding key matches; none if it matches no subject."""
    words = key.split(".")
    if ANY_WORDS not in words:
        return (key,) if _is_sound(words) else ()
    first = words.index(ANY_WORDS)
    before, after = words[:first], [word for word in words[first:] if word != ANY_WORDS]
    while before and before[-1] == "*":  # `*.#` is `#.*`: one word or more
        after.insert(0, before.pop())
    if not (_is_sound(before) and _is_sound(after)):
        return ()
    if after:  # at least so many words follow, whatever they are
        return (".".join((*before, *["*"] * (len(after) - 1), ">")),)
    return (".".join(before), ".".join((*before, ">"))) if before else (">",)


def is_exact(key: str) -> bool:
    """Whether the patterns of a binding key match nothing but what the key matches."""
    words = key.split(".")
    return ANY_WORDS not in words or all(word in ("*", "#") for word in words[words.index(ANY_WORDS) :])


def key_of(pattern: str) -> str:
    """The binding key that matches everything under a pattern, and little else."""
    words = ["*" if word == ANY_WORDS else word for word in pattern.split(".")]
    if words[-1] == ">":
        words[-1:] = ["*", ANY_WORDS]
    if len(".".join(words).encode()) <= MAX_KEY_BYTES:
        return ".".join(words)
    while len(".".join((*words, ANY_WORDS)).encode()) > MAX_KEY_BYTES:
        words.pop()
    return ".".join((*words, ANY_WORDS))


def is_subject(key: str) -> bool:
    """Whether a routing key can travel as a subject."""
    return not subject_problem(key, wildcards=False)


def _is_sound(words: list[str]) -> bool:
    """Whether some subject can have these words, of which `*` is any."""
    return all(word == "*" or not subject_problem(word, wildcards=False) for word in words)
