"""How figures of load are put into sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def listed(words: Iterable[str]) -> str:
    """Words with commas; something is said even of none."""
    return ", ".join(words) or "nothing"


def shares(utilisation: Mapping[str, float]) -> str:
    """Metrics with their utilisation."""
    return listed(f"{metric} {share:.1%}" for metric, share in utilisation.items())


def placed(headroom: Mapping[str, float | None]) -> str:
    """Brokers with what they have left."""
    return listed(
        f"{broker} {'unmeasured' if left is None else f'{left:.1%} left'}"
        for broker, left in headroom.items()
    )


def counted(count: int, thing: str) -> str:
    """So many of a thing whose plural ends in s."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def are(count: int) -> str:
    """The verb for so many."""
    return "is" if count == 1 else "are"


def clients(count: int) -> str:
    """How many subscriptions or publishers."""
    return counted(count, "client")
