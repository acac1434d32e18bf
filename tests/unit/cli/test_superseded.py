"""Who starts from a file is told that its contracts do not hold any more."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from mangrove.cli.versions.superseded import superseded
from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.federation import Domain, Federation
from mangrove.model.topics import Contract
from mangrove.model.versions.document import WrittenDocument, first_document, in_force
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.succession import successor

FILE = Federation(name="f", domains={name: Domain(name=name, base_port=1) for name in "ab"})


def test_a_file_whose_contracts_do_not_hold_is_told(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert superseded(FILE, run, "ab") == []
    second = successor(first_document(FILE), [Contract(match="x", deadline_ms=5.0)], by="", at="")
    VersionStore(run.versions_of("b")).write(KeptVersions(committed=WrittenDocument(text=second.text())))
    (told,) = superseded(FILE, run, "ab")
    assert "version 2" in told
    assert "mangrove apply" in told
    assert superseded(in_force(FILE, second), run, "ab") == [], "the file that was applied"
    edited = replace(FILE, topics=replace(second.topics, contracts=(Contract(match="y"),)))
    assert superseded(edited, run, "b")
