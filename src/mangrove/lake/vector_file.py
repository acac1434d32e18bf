"""The table of word vectors as a file: what `mangrove pipeline semantics` writes and subscribers read.

An archive of NumPy arrays without pickles. Sizes are looked at before anything is unpacked, because the file
may come from somewhere else.
"""

from __future__ import annotations

import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from mangrove.errors import InputError
from mangrove.model.congestion.word_vectors import MAX_DIMENSIONS, MAX_WORDS, WordVectors

FILE_NAME = "vectors.npz"
VERSION = 1
MAX_UNPACKED_BYTES = MAX_WORDS * (4 * MAX_DIMENSIONS + 4 * 64) + 65_536
TRAIN_AGAIN = "make one with `mangrove pipeline semantics`"
_ARRAYS = ("version", "words", "vectors", "least_similarity")


def write_vectors(path: Path, vectors: WordVectors) -> None:
    """Write the file; the same vectors give the same bytes."""
    np.savez_compressed(
        path,
        version=np.int64(VERSION),
        words=np.array(vectors.words, dtype=np.str_),
        vectors=vectors.vectors,
        least_similarity=np.float64(vectors.least_similarity),
    )


def read_vectors(path: str | Path) -> WordVectors:
    """The table of a file; one that was read and has not changed is not read again."""
    place = Path(path)
    try:
        found = place.stat()
    except OSError as error:
        raise InputError(f"cannot read {place}: {error.strerror or error}", hint=TRAIN_AGAIN) from error
    return _read(place, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, _changed_ns: int, _size_bytes: int) -> WordVectors:
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(each.file_size for each in archive.infolist())
        if unpacked > MAX_UNPACKED_BYTES:
            raise InputError(
                f"{path} unpacks to {unpacked:,} bytes", hint=f"a table takes at most {MAX_UNPACKED_BYTES:,}"
            )
        with np.load(path, allow_pickle=False) as arrays:
            if "version" in arrays.files and (version := int(arrays["version"])) != VERSION:
                raise InputError(
                    f"{path} is a table of version {version}; this program reads version {VERSION}",
                    hint=TRAIN_AGAIN,
                )
            missing = [name for name in _ARRAYS if name not in arrays.files]
            if missing:
                raise InputError(
                    f"{path} is no table of word vectors: it has no {', '.join(missing)}", hint=TRAIN_AGAIN
                )
            words = arrays["words"]
            if words.ndim != 1 or words.dtype.kind != "U":
                raise InputError(f"{path}: its words are not a list of texts", hint=TRAIN_AGAIN)
            try:
                return WordVectors(words.tolist(), arrays["vectors"], float(arrays["least_similarity"]))
            except InputError as error:
                problem = f"{path} is no table of word vectors: {error.message}"
                raise InputError(problem, hint=error.hint) from None
    except (OSError, ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is no table of word vectors: {error}", hint=TRAIN_AGAIN) from error
