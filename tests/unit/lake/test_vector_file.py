"""A table of word vectors as a file, and what is said of files that hold none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.lake.vector_file import MAX_UNPACKED_BYTES, read_vectors, write_vectors
from mangrove.model.congestion.word_vectors import WordVectors

TABLE = WordVectors(("flood", "inundation"), np.array([[1, 0], [0.8, 0.6]], np.float32), 0.7)


def test_a_table_comes_back_as_it_was_and_the_same_table_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.npz", "other.npz"):
        write_vectors(tmp_path / name, TABLE)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    found = read_vectors(tmp_path / "one.npz")
    assert found.words == TABLE.words
    assert found.least_similarity == TABLE.least_similarity
    assert np.array_equal(found.vectors, TABLE.vectors)
    assert read_vectors(str(tmp_path / "one.npz")) is found, "read once"


def _arrays(**changed: object) -> dict[str, object]:
    good = {"version": 1, "words": np.array(TABLE.words), "vectors": TABLE.vectors, "least_similarity": 0.7}
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (_arrays(version=2), "is a table of version 2; this program reads version 1"),
        (_arrays(vectors=None), "is no table of word vectors: it has no vectors"),
        (_arrays(words=np.array([1, 2])), "its words are not a list of texts"),
        (_arrays(words=np.array(["a"])), "is no table of word vectors: 1 words with vectors of shape (2, 2)"),
        (_arrays(more=np.zeros(MAX_UNPACKED_BYTES)), "unpacks to"),
        (_arrays(words=np.array([None, {}], dtype=object)), "is no table of word vectors"),
    ],
)
def test_another_version_and_other_archives_are_refused(
    tmp_path: Path, arrays: dict[str, Any], problem: str
) -> None:
    path = tmp_path / "vectors.npz"
    np.savez_compressed(path, **arrays)
    with pytest.raises(InputError) as refused:
        read_vectors(path)
    assert problem in refused.value.message
    assert str(path) in refused.value.message


@pytest.mark.parametrize("data", [b"", b"not an archive", b"PK\x03\x04 half of one"])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "vectors.npz"
    path.write_bytes(data)
    with pytest.raises(InputError, match="is no table of word vectors"):
        read_vectors(path)
    with pytest.raises(InputError, match="cannot read"):
        read_vectors(tmp_path / "nowhere.npz")
