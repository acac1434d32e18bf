"""`mangrove dead-letters`, apart from a federation: what letters tell, and where payloads are kept."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path

import pytest

from mangrove.broker.message_heads import encode_head
from mangrove.cli.mediation.dead_letters import described
from mangrove.cli.mediation.kept_payloads import KeptPayloads
from mangrove.client.message import Message
from mangrove.client.publishing import Outcome
from mangrove.errors import InputError, MangroveError


@pytest.mark.parametrize(
    ("told", "size"),
    [("70000", 70_000), ("9" * 5_000, 4), ("9" * 13, 4), ("٣", 4), ("²", 4), ("-1", 4), ("many", 4), ("", 4)],
)
def test_a_size_is_taken_from_a_header_only_if_it_is_one(told: str, size: int) -> None:
    head = encode_head({"Mangrove-Dead-Cut": told})
    letter = described(Message("dead.letter.x", b"1234", head, "", _respond))
    assert letter["bytes"] == size
    assert letter["cut"] == bool(told)


async def _respond(subject: str, data: bytes, headers: Mapping[str, str] | None) -> Outcome:
    raise AssertionError("nobody answers to a letter")


def test_payloads_of_an_earlier_run_are_kept(tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    first = KeptPayloads(letters)
    assert [first.keep(each).name for each in (b"1", b"2")] == ["000001", "000002"]
    for name in ("notes", "²", "9" * 200, "000000000000041"):
        (letters / name).write_bytes(b"somebody's")
    (letters / "1000000").write_bytes(b"of long ago")
    second, beside = KeptPayloads(letters), KeptPayloads(letters)
    assert [second.keep(b"3").name, beside.keep(b"4").name, second.keep(b"5").name] == [
        "1000001",
        "1000002",
        "1000003",
    ]
    assert (letters / "000001").read_bytes() == b"1"


def test_a_directory_that_cannot_be_had_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"--out .*file"):
        KeptPayloads(tmp_path / "file")


def test_what_cannot_be_written_is_said_with_its_place(tmp_path: Path) -> None:
    kept = KeptPayloads(tmp_path / "letters")
    (tmp_path / "letters").rmdir()
    with pytest.raises(MangroveError, match=r"cannot write .*letters/000001") as failed:
        kept.keep(b"1")
    assert "--out" in failed.value.hint


def test_no_half_of_a_payload_is_left(tmp_path: Path) -> None:
    kept = KeptPayloads(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(MangroveError, match="cannot write"):
            kept.keep(b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
