"""Where the other side of a topic is, and what tables 4-4 and 4-6 call that."""

from __future__ import annotations

from mangrove.control.offloading.problem import Audience

CLASS_SUFFIX = {Audience.REMOTE: "r", Audience.LOCAL: "l", Audience.BOTH: "r-l", Audience.NONE: "n"}


def audience_of(*, local: bool, remote: bool) -> Audience:
    """The audience of a publisher's topic from its subscribers; of a subscriber's, from its publishers."""
    if remote:
        return Audience.BOTH if local else Audience.REMOTE
    return Audience.LOCAL if local else Audience.NONE


def class_name(audience: Audience, *, publishers: bool) -> str:
    """Pr, Pl, Pr-l or Pn; Sr, Sl, Sr-l or Sn."""
    return ("P" if publishers else "S") + CLASS_SUFFIX[audience]
