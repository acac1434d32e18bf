"""The code that trials are played with: its digest, and a copy that executors can import."""

from __future__ import annotations

import hashlib
import py_compile
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
ROOMS = ("model", "planning", "routing", "overlay", "control", "simulation", "evaluation", "data")
"""What trials may use, besides the modules at the top."""
STAMP = (2020, 1, 1, 0, 0, 0)
"""The time of every file in the copy, so that the same code makes the same file."""


def _files() -> list[Path]:
    files = [*PACKAGE.glob("*.py"), *(path for room in ROOMS for path in (PACKAGE / room).rglob("*"))]
    return sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Differs when a line of the code that trials may use does."""
    digest = hashlib.sha256()
    for path in _files():
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def packed(folder: Path) -> Path:
    """The package as a zip file in a folder; compiled as well, since imports from a zip keep nothing."""
    archive = folder / f"mangrove-{code_digest()}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as pack, tempfile.TemporaryDirectory() as made:
        compiled = Path(made) / "module.pyc"
        for path in _files():
            place = Path("mangrove") / path.relative_to(PACKAGE)
            _put(pack, place, path.read_bytes())
            if path.suffix == ".py":
                py_compile.compile(
                    str(path),
                    cfile=str(compiled),
                    dfile=str(place),
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
                _put(pack, place.with_suffix(".pyc"), compiled.read_bytes())
    return archive


def _put(pack: zipfile.ZipFile, place: Path, data: bytes) -> None:
    pack.writestr(zipfile.ZipInfo(str(place), STAMP), data, zipfile.ZIP_DEFLATED)
