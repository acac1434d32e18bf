"""What a contract asks of its paths, beside what they achieve."""

from __future__ import annotations

import msgspec

AT_MOST = frozenset({"deadline_ms", "max_hops"})
"""Of these less is better; of all others more."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a contract: what was asked, and what the paths in use give, None for without limit."""

    name: str
    asked: float
    achieved: float | None
    apart_from: str = ""
    """The region or contract that a separation is from; empty if it is between the contract's own paths."""

    @property
    def met(self) -> bool:
        """Whether what is achieved is enough."""
        if self.achieved is None:
            return True
        return self.shortfall <= 1e-9

    @property
    def shortfall(self) -> float:
        """By what part of it what was asked is missed; 0 if it is met. For comparison only."""
        if self.achieved is None:
            return 0.0
        if self.name == "resiliency":
            # Between 0.999 and 0.9999 lies as much as between 0.99 and 0.999.
            return max(0.0, (1.0 - self.achieved) / (1.0 - self.asked) - 1.0)
        missing = self.achieved - self.asked if self.name in AT_MOST else self.asked - self.achieved
        return max(0.0, missing / self.asked)

    def sentence(self) -> str:
        """What is missed, and by how much, in words."""
        achieved = 0.0 if self.achieved is None else self.achieved
        match self.name:
            case "deadline_ms":
                return f"best achievable delay is {achieved:.1f} ms, the deadline {self.asked:g} ms"
            case "max_hops":
                return f"the path has {achieved:.0f} hops, {self.asked:.0f} are allowed"
            case "paths":
                return f"{achieved:.0f} of {self.asked:.0f} paths exist within the contract"
            case "resiliency":
                return f"a path is up with probability {share(achieved)}, {share(self.asked)} is promised"
            case "separation_km":
                other = f" from {self.apart_from}" if self.apart_from else ""
                return f"paths are {achieved:.0f} km apart{other}, {self.asked:g} km are asked for"
            case _:
                return f"{achieved:.1f} Mbit/s are free on the way, {self.asked:g} Mbit/s are needed"


def share(probability: float) -> str:
    """A probability near one with as many digits as tell it from one."""
    digits = 2
    while digits < 9 and round(1.0 - probability, digits) < 10.0**-digits * 5:
        digits += 1
    text = f"{probability:.{digits}f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def unmet_text(requirements: tuple[Requirement, ...]) -> str:
    """All that is missed in one line; empty if nothing is."""
    return "; ".join(each.sentence() for each in requirements if not each.met)
