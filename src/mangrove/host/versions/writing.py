"""A document as it is handed to gateways: signed by the authority where a federation has keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.model.versions.document import MAX_DOCUMENT_BYTES, FederationDocument, WrittenDocument

if TYPE_CHECKING:
    from mangrove.host.keys.directory import KeyDirectory


def written(document: FederationDocument, keys: str) -> WrittenDocument:
    """The text, and the authority's signature if there is a key directory; InputError without authority."""
    text = document.text()
    if len(text) > MAX_DOCUMENT_BYTES:
        raise InputError(
            f"the document has {len(text):,} bytes, and may have {MAX_DOCUMENT_BYTES:,}",
            hint="join contracts under fewer patterns",
        )
    if not keys:
        return WrittenDocument(text=text)
    from mangrove.host.keys.approval import approve
    from mangrove.host.keys.files.key_files import read_authority

    return WrittenDocument(text=text, signature=approve(text, read_authority(check_authority(keys))))


def check_authority(keys: str) -> KeyDirectory:
    """The key directory; InputError if it is not that of the authority."""
    from mangrove.host.keys.directory import KeyDirectory
    from mangrove.host.keys.files.guarded_file import is_there

    directory = KeyDirectory(Path(keys))
    if not is_there(directory.authority_key):
        raise InputError(
            f"{directory.path} has no authority, which must sign what is put in force",
            hint="change the federation where `mangrove keys init` made its keys, or give them with --keys",
        )
    return directory
