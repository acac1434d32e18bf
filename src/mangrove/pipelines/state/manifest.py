"""What a state directory holds: for which job and lake, and which input files made which part."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.lake.files import LakeFile
from mangrove.pipelines.reading.lake_scan import Part, part_of

FORMAT = 1
NAME = "manifest.json"
ANEW = "give another directory, or delete this one: a new state is made from the lake"
BEGUN = ".mangrove-state"
"""Marks a directory that a run has begun to use: it may have died before it could publish anything."""


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """One input table: all its files as they were found, and the parts made of the usable ones.

    A part is named `date/domain`; `inputs` tells the files it was made of, `run` is the directory that holds
    it (0: its rows gave no result).
    """

    files: tuple[LakeFile, ...] = ()
    inputs: dict[str, str] = {}
    run: dict[str, int] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A state as it was published."""

    format: int = FORMAT
    job: str
    version: int
    lake: str
    settings: dict[str, str]
    runs: int = 0
    tables: dict[str, TableState] = {}


def key_of(part: Part) -> str:
    """A part's name in the manifest."""
    return f"{part.date}/{part.domain}"


def inputs_of(files: Iterable[LakeFile]) -> dict[Part, str]:
    """What each part is made of, in a few letters: another set of files, sizes or times gives others."""
    names: dict[Part, list[str]] = {}
    for file in files:
        part = part_of(file)
        if part is None:
            raise InputError(
                f"--state: {file.path} is in no directory of a day and a domain",
                hint="a state is kept by date=…/domain=…/; put the file there, or leave --state out",
            )
        names.setdefault(part, []).append(f"{file.uri} {file.size_bytes} {file.modified_ms}")
    return {
        part: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:24]
        for part, lines in names.items()
    }


def read_manifest(directory: Path, wanted: Manifest) -> Manifest:
    """The state in `directory`, or `wanted` where there is none yet; refuses what does not fit this job."""
    path = directory / NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        begun = not directory.exists() or (directory / BEGUN).exists()
        if not begun and any(entry.name[0] != "." for entry in directory.iterdir()):
            raise InputError(
                f"--state: {directory} holds files, but no state of `pipeline {wanted.job}`",
                hint="give a new or an empty directory",
            ) from None
        return wanted
    except OSError as error:
        raise InputError(
            f"--state: cannot read {path}: {error.strerror or error}",
            hint="give a directory that this user may write",
        ) from None
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT or (head.job == wanted.job and head.version != wanted.version):
            raise InputError(
                f"--state: {directory} was written by another version of `pipeline {head.job}` "
                f"({head.format}.{head.version}; this one writes {FORMAT}.{wanted.version})",
                hint=ANEW,
            )
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise InputError(f"--state: {path} is damaged: {error}", hint=ANEW) from None
    if found.job != wanted.job:
        raise InputError(f"--state: {directory} is a state of `pipeline {found.job}`", hint=ANEW)
    if found.lake != wanted.lake:
        raise InputError(f"--state: {directory} is of the lake {found.lake}, not {wanted.lake}", hint=ANEW)
    if found.settings != wanted.settings:
        raise InputError(
            f"--state: {directory} was made with {_listed(found.settings)}, not {_listed(wanted.settings)}",
            hint=ANEW,
        )
    return found


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest: afterwards the new one is on the disk, whatever happens."""
    hidden = directory / f".{NAME}"
    with hidden.open("wb") as file:
        file.write(msgspec.json.encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(directory / NAME)
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class _Head(msgspec.Struct):
    format: int
    job: str
    version: int


def _listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(settings.items())) or "no settings"
