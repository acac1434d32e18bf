"""What a domain keeps of versions on disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.kit.assembly import Assembly

from mangrove.errors import InputError
from mangrove.gateway.versions import kept_versions
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.federation import Domain, Federation
from mangrove.model.mediation.transform import Format, Transform
from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.document import WrittenDocument, first_document
from mangrove.model.versions.kept import Ballot, KeptVersions
from mangrove.model.versions.succession import successor


def federation(*matches: str, domains: str = "ab") -> Federation:
    return Federation(
        name="f",
        domains={name: Domain(name=name, base_port=1) for name in domains},
        topics=TopicRules(tuple(Contract(match=match) for match in matches)),
    )


def test_what_was_written_down_is_read_again_with_all_that_was_in_force(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "a")
    assert store.read() == KeptVersions()
    assert list(store.documents()) == []
    group = Assembly()
    for topic in ("x", "y"):
        group.councils["a"].propose(group.change("a", topic), "", group.now)
        group.settle()
        store.write(group.disk["b"])
    assert store.read() == group.disk["b"]
    assert [each.version for each in store.documents()] == [2, 3]
    promised = KeptVersions(promised=Ballot(7, "a"))
    store.write(promised)
    assert store.read() == promised


def test_a_state_that_is_no_state_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"half")
    with pytest.raises(InputError, match=str(tmp_path)) as caught:
        VersionStore(tmp_path).read()
    assert "remove it" in caught.value.hint
    (tmp_path / "00000002.document").write_bytes(b"half")
    assert list(VersionStore(tmp_path).documents()) == [], "what cannot be read is left out"


def test_a_site_starts_with_its_first_file_or_with_another_of_the_same_shape_and_no_other(
    tmp_path: Path,
) -> None:
    first = first_document(federation("x"))
    second = successor(first, [Contract(match="y")], by="", at="")
    kept = KeptVersions(committed=WrittenDocument(text=second.text()))
    VersionStore(tmp_path).write(kept)
    assert kept_versions(str(tmp_path), federation("x"), "a") == kept
    assert kept_versions(str(tmp_path), federation("y"), "a") == kept
    assert kept_versions("", federation("y"), "a") == KeptVersions()
    with pytest.raises(InputError, match="other domains or links"):
        kept_versions(str(tmp_path), federation("x", domains="abc"), "a")
    VersionStore(tmp_path).write(
        KeptVersions(accepted=Ballot(1, "a"), promised=Ballot(1, "a"), accepted_document=kept.committed)
    )
    assert kept_versions(str(tmp_path), federation("x"), "a").accepted_document == kept.committed
    with pytest.raises(InputError, match="another federation file"):
        kept_versions(str(tmp_path), federation("z"), "a")


def test_a_site_starts_with_the_transforms_that_were_changed_while_it_ran(tmp_path: Path) -> None:
    shorter = {"short": Transform(encode=Format.MSGPACK)}
    first = first_document(federation("x"))
    second = successor(first, [Contract(match="x")], by="", at="", settings={"transforms": shorter})
    kept = KeptVersions(committed=WrittenDocument(text=second.text()))
    VersionStore(tmp_path).write(kept)
    changed = msgspec.structs.replace(federation("x"), transforms=shorter)
    assert kept_versions(str(tmp_path), changed, "a") == kept
    with pytest.raises(InputError, match="other domains or links"):
        kept_versions(str(tmp_path), federation("x", domains="abc"), "a")
