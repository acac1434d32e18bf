"""The hash of everything that a domain wants: a tree, so that a change costs what the change is.

Wants are spread over leaves by a checksum. A leaf's hash is over its wants in order, a branch's over its
leaves, the root's over the branches. Who changes one want makes three short hashes anew, however many there
are. Two tables have the same root only if they are the same, as far as blake2b can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from zlib import crc32

HASH_BYTES = 16
_BRANCHES = 64
_LEAVES = 64
"""Of each branch."""
_EMPTY = bytes(HASH_BYTES)


def digest_of(data: bytes) -> bytes:
    """A hash of the length that is used in statements."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


def leaf_of(want: str) -> int:
    """The leaf on which a want lies."""
    return crc32(want.encode()) % (_BRANCHES * _LEAVES)


class TableHash:
    """The hash of a set of wants that changes."""

    __slots__ = ("_branches", "_changed", "_leaves", "_root", "_wants")

    def __init__(self, wants: Iterable[str] = ()) -> None:
        self._wants: dict[int, set[str]] = {}
        """By leaf."""
        self._leaves: dict[int, bytearray] = {}
        """The hashes of a branch's leaves, one after the other."""
        self._branches = bytearray(_EMPTY * _BRANCHES)
        self._changed: set[int] = set()
        self._root = b""
        self.add(wants)

    def add(self, wants: Iterable[str]) -> None:
        """These are wanted."""
        leaves, changed = self._wants, self._changed
        for want in wants:
            leaf = leaf_of(want)
            found = leaves.get(leaf)
            if found is None:
                leaves[leaf] = {want}
            else:
                found.add(want)
            changed.add(leaf)

    def remove(self, wants: Iterable[str]) -> None:
        """These are no longer wanted."""
        for want in wants:
            leaf = leaf_of(want)
            found = self._wants.get(leaf)
            if found is not None:
                found.discard(want)
                if not found:
                    del self._wants[leaf]
                self._changed.add(leaf)

    def root(self) -> bytes:
        """The hash of all that is wanted."""
        if self._changed or not self._root:
            touched = set()
            for leaf in self._changed:
                branch, place = divmod(leaf, _LEAVES)
                leaves = self._leaves.get(branch)
                if leaves is None:
                    leaves = self._leaves[branch] = bytearray(_EMPTY * _LEAVES)
                leaves[place * HASH_BYTES : (place + 1) * HASH_BYTES] = self._leaf(leaf)
                touched.add(branch)
            for branch in touched:
                leaves = self._leaves[branch]
                hashed = digest_of(b"branch" + leaves) if any(leaves) else _EMPTY
                self._branches[branch * HASH_BYTES : (branch + 1) * HASH_BYTES] = hashed
            self._changed.clear()
            self._root = digest_of(b"root" + self._branches)
        return self._root

    def _leaf(self, leaf: int) -> bytes:
        wants = self._wants.get(leaf)
        # A want holds no line feed: subjects and groups have neither blanks nor control characters.
        return digest_of(("leaf" + "\n".join(sorted(wants))).encode()) if wants else _EMPTY
