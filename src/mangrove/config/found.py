"""What was found in a document, in few words: a few lines of YAML may stand for a value without end."""

from __future__ import annotations

import reprlib

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 4
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxtuple = 8
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 300


def found_text(value: object) -> str:
    """The value as Python writes it, without what is deep in it or comes after much else."""
    return _SHORT.repr(value)
