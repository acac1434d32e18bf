"""Selectors in the names of queue groups: so a broker itself tells of every subscription what it selects.

    _MGW.<tag>.<selector>

A subscription with a selector is at its broker a queue group of its own: like any subscriber it gets every
message, and it is told apart from those who want everything. In the domain the tag is of the subscriber's
making, and so is unique; to other domains the gateway names its own domain as the tag, once for all who
select the same. Who knows nothing of selectors takes it for a queue group that has members there alone, and
sends everything.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote_plus, unquote_plus

from mangrove.model.selectors.selector import Selector
from mangrove.model.selectors.words import SelectorError

PREFIX = "_MGW."
MAX_ENCODED_BYTES = 160
"""Longer ones are known to the subscriber alone: every message from another domain names these groups."""
MAX_REMEMBERED = 1 << 12
"""So many names need not be read again."""
_OTHER = "~"
_AS_IT_IS = "<>=()',$.*/:|@!~-_"


def selecting_group(tag: str, selector: Selector) -> str:
    """The name that stands for a selector; empty if it is too long for one."""
    encoded = quote_plus(selector.text, safe=_AS_IT_IS)
    return f"{PREFIX}{tag}.{encoded}" if len(encoded) <= MAX_ENCODED_BYTES else ""


def selector_in(group: str) -> Selector | None:
    """The selector that a queue group stands for; None if it is an ordinary one."""
    if not group.startswith(PREFIX):
        return None
    _, _, encoded = group[len(PREFIX) :].partition(".")
    return _decoded(encoded) if 0 < len(encoded) <= MAX_ENCODED_BYTES else None


@lru_cache(maxsize=MAX_REMEMBERED)
def _decoded(encoded: str) -> Selector | None:
    try:
        selector = Selector(unquote_plus(encoded, errors="strict"))
    except (SelectorError, UnicodeDecodeError):
        return None
    # There is one way to write it, or else one want would be withdrawn by the name of another.
    return selector if quote_plus(selector.text, safe=_AS_IT_IS) == encoded else None


def beside(group: str) -> str:
    """Another name for what a group stands for, to have both for a moment; any other group's own name."""
    if selector_in(group) is None:
        return group
    tag, _, encoded = group[len(PREFIX) :].partition(".")
    other = tag.removesuffix(_OTHER) if tag.endswith(_OTHER) else tag + _OTHER
    return f"{PREFIX}{other}.{encoded}"


def told_group(domain: str, group: str) -> str:
    """How a domain's gateway tells the others of a group that stands for a selector."""
    _, _, encoded = group[len(PREFIX) :].partition(".")
    return f"{PREFIX}{domain}.{encoded}"
