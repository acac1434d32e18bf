"""What a key directory says of itself: whose keys they are, and which generation. Nothing in it is secret."""

from __future__ import annotations

import msgspec

from mangrove.errors import InputError
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.guarded_file import RESTORE, is_there, read_guarded
from mangrove.model.unreadable import UNREADABLE

NO_KEYS = "make keys with `mangrove keys init FILE`, or unpack the site's export there"


class Replaced(msgspec.Struct, frozen=True):
    """A certificate that was replaced, and is believed until the overlap is ended."""

    domain: str
    serial: str
    ends_s: int
    """When it ends anyway, in seconds since 1970."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Counted up with every change, so that who runs sees that there is one."""

    federation: str
    generation: int = 0
    authority: int = 1
    """How many authorities there have been; each has a name of its own."""
    replaced: tuple[Replaced, ...] = ()
    guests: dict[str, tuple[str, ...]] = {}
    """Domains whose brokers also let clients of other domains in, and of which."""


def read_about(directory: KeyDirectory) -> About:
    """Whose keys they are, or InputError if there are none."""
    if not is_there(directory.about):
        raise InputError(f"there are no keys in {directory.path}", hint=NO_KEYS)
    try:
        return msgspec.json.decode(read_guarded(directory.about, directory.path), type=About)
    except UNREADABLE:
        raise InputError(f"{directory.about} is not what `mangrove keys` wrote", hint=RESTORE) from None
