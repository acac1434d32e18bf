"""What changed between two accounts, as plain data: objects by key, lists by position, the rest as it is.

A change is a list that begins with its kind. Applying the difference of two trees to the first gives the
second; what does not fit the tree that it is applied to is an error, never a wrong tree.
"""

from __future__ import annotations

from typing import Any

SAME: list[Any] = []
"""Nothing changed."""
PUT, OBJECT, LIST = 0, 1, 2
MAX_DEPTH = 32
_MISSING = object()


class UnfitChangeError(ValueError):
    """A change that is malformed, or of another tree."""


def difference(before: Any, after: Any) -> list[Any]:
    """How `after` is got from `before`; `SAME` if it is the same."""
    if isinstance(before, dict) and isinstance(after, dict):
        changed = {}
        for key, value in after.items():
            old = before.get(key, _MISSING)
            if old is value:  # most of what did not change is the very same object: nothing is compared
                continue
            if old is _MISSING:
                changed[key] = [PUT, value]
            elif change := difference(old, value):
                changed[key] = change
        gone = [key for key in before if key not in after] if len(before) + len(changed) > len(after) else []
        return [OBJECT, changed, gone] if changed or gone else SAME
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        shared = min(len(before), len(after))
        rows = {
            index: change for index in range(shared) if (change := difference(before[index], after[index]))
        }
        if not rows and len(before) == len(after):
            return SAME
        return [LIST, len(after), rows, list(after[shared:])]
    # 1, 1.0 and True are equal, and not the same to who reads them
    return SAME if type(before) is type(after) and before == after else [PUT, after]


def applied(tree: Any, change: Any, depth: int = 0) -> Any:
    """The tree after a change; parts that did not change are shared with the one before."""
    match change:
        case []:
            return tree
        case [0, value]:
            return value
        case [1, dict() as changed, list() as gone] if isinstance(tree, dict) and depth < MAX_DEPTH:
            after = dict(tree)
            for key, each in changed.items():
                after[key] = applied(tree.get(key), each, depth + 1)
            for key in gone:
                after.pop(key, None)
            return after
        case [2, int() as length, dict() as rows, list() as added] if (
            isinstance(tree, list | tuple) and depth < MAX_DEPTH
        ):
            kept = length - len(added)
            if not 0 <= kept <= len(tree):
                raise UnfitChangeError(f"a list of {len(tree)} cannot become one of {length}")
            found = list(tree[:kept])
            for index, each in rows.items():
                if not isinstance(index, int) or not 0 <= index < kept:
                    raise UnfitChangeError(f"there is no row {index!r}")
                found[index] = applied(found[index], each, depth + 1)
            return found + added
        case _:
            raise UnfitChangeError("that is no change of this")
