"""The audit log on disk: a chain across crashes and full files, in which whatever is done to it shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mangrove.errors import InputError
from mangrove.host.audit.audit_file import AuditFile, files_of
from mangrove.host.audit.operator_audit import OPERATOR, note_operator
from mangrove.host.audit.reading import check_logs, processes_in, read_chain
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.check import ChainReport, Problem
from mangrove.model.audit.entry import AuditEntry, AuditHead, AuditKind

REFUSED = AuditKind.CONNECTION_REFUSED


def log_with(path: Path, count: int, max_bytes: int = 1 << 20, kept_files: int = 8) -> AuditHead:
    with AuditFile(path, "oslo-gateway", max_bytes=max_bytes, kept_files=kept_files) as file:
        for number in range(count):
            file.write(REFUSED, {"host": f"10.0.0.{number}"})
        return file.head


def report_of(path: Path, *heads: AuditHead) -> ChainReport:
    (report,) = check_logs(RunDirectory(path.parent.parent), heads)
    return report


def entries_in(path: Path) -> list[AuditEntry]:
    return read_chain(RunDirectory(path.parent.parent), "oslo-gateway")


def problems_of(path: Path, *heads: AuditHead) -> set[Problem]:
    return {finding.problem for finding in report_of(path, *heads).findings}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit" / "oslo-gateway.jsonl"


def test_a_log_that_nobody_touched_is_whole_and_only_its_owner_can_read_it(path: Path) -> None:
    head = log_with(path, 5)
    report = report_of(path, head)
    assert (report.whole, report.entries, report.first, report.head) == (True, 5, 1, head)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_chain_goes_on_in_the_next_life(path: Path) -> None:
    log_with(path, 3)
    head = log_with(path, 2)
    assert head.number == 5
    assert report_of(path).whole


@pytest.mark.parametrize("line", [0, 2, 3])
def test_a_changed_entry_is_found(path: Path, line: int) -> None:
    log_with(path, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"10.0.0.", b"10.9.9.")
    path.write_bytes(b"".join(lines))
    assert problems_of(path) == {Problem.CHANGED}


def test_a_removed_a_moved_and_a_repeated_entry_are_found(path: Path) -> None:
    log_with(path, 6)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    assert problems_of(path) == {Problem.MISSING}
    path.write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert problems_of(path) == {Problem.MISSING, Problem.MOVED}
    path.write_bytes(b"".join([*lines[:3], lines[2], *lines[3:]]))
    assert Problem.MOVED in problems_of(path)
    path.write_bytes(b"".join(lines[1:]))
    assert problems_of(path) == {Problem.MISSING}


def test_an_added_line_and_an_entry_of_another_process_are_found(path: Path) -> None:
    log_with(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"all is well\n", *lines[1:]]))
    assert problems_of(path) == {Problem.UNREADABLE}
    path.write_bytes(b"".join(lines).replace(b"oslo-gateway", b"rome-gateway"))
    assert Problem.FOREIGN in problems_of(path)


def test_a_file_that_was_cut_at_its_end_is_found_by_a_head_that_was_kept(path: Path) -> None:
    head = log_with(path, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    assert not problems_of(path), "a shorter chain alone looks like an earlier time"
    assert problems_of(path, head) == {Problem.SHORTENED}
    log_with(path, 2)
    assert problems_of(path, head) == {Problem.REPLACED}, "entries 4 and 5 are others now"


def test_a_log_that_is_gone_is_found_by_a_head_that_was_kept(path: Path) -> None:
    head = log_with(path, 5)
    path.unlink()
    assert problems_of(path, head) == {Problem.SHORTENED}


def test_a_living_process_shows_in_its_next_entry_that_its_log_was_cut_or_removed(path: Path) -> None:
    with AuditFile(path, "oslo-gateway") as file:
        for _ in range(4):
            file.write(REFUSED, {})
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
        file.write(REFUSED, {})
        assert problems_of(path) == {Problem.MISSING}
        path.unlink()
        file.write(REFUSED, {})
    kinds = [entry.kind for entry in entries_in(path)]
    assert kinds == [AuditKind.LOG_CHANGED, REFUSED]
    assert problems_of(path) == {Problem.MISSING}


def test_a_line_that_a_crash_tore_is_said_and_the_next_life_accounts_for_it(path: Path) -> None:
    log_with(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert problems_of(path) == {Problem.TORN}
    log_with(path, 1)
    report = report_of(path)
    assert (report.whole, report.torn_lines, report.entries) == (True, 1, 4)
    kinds = [entry.kind for entry in entries_in(path)]
    assert kinds == [REFUSED, REFUSED, AuditKind.LOG_TORN, REFUSED]


def test_an_entry_that_lacks_its_end_alone_is_whole(path: Path) -> None:
    log_with(path, 3)
    path.write_bytes(path.read_bytes()[:-1])
    assert log_with(path, 1).number == 4
    assert report_of(path).whole


def test_garbage_cannot_pass_as_a_torn_line(path: Path) -> None:
    log_with(path, 3)
    path.write_bytes(path.read_bytes()[:-20])
    log_with(path, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"number": 3, "kind": "nothing hap\n'
    path.write_bytes(b"".join(lines))
    assert problems_of(path) == {Problem.UNREADABLE}


def test_full_files_are_kept_in_a_bounded_number_and_the_chain_goes_across_them(path: Path) -> None:
    log_with(path, 200, max_bytes=2_000, kept_files=3)
    assert len(files_of(path)) == 4
    assert sum(each.stat().st_size for each in files_of(path)) < 4 * 2_500
    report = report_of(path)
    assert report.whole
    assert report.first > 1
    assert log_with(path, 1, max_bytes=2_000, kept_files=3).number == report.head.number + 1
    assert report_of(path).whole


def test_a_full_file_that_somebody_removed_is_found(path: Path) -> None:
    log_with(path, 200, max_bytes=2_000, kept_files=3)
    oldest, middle, *_ = files_of(path)
    kept = middle.read_bytes()
    middle.unlink()
    assert problems_of(path) == {Problem.MISSING}
    middle.write_bytes(kept)
    oldest.unlink()
    assert problems_of(path) == {Problem.MISSING}


def test_the_chain_goes_on_where_a_crash_left_an_empty_file_after_a_full_one(path: Path) -> None:
    log_with(path, 10)
    path.rename(path.with_name(f"{path.name}.{1:012d}"))
    assert log_with(path, 1).number == 11
    assert report_of(path).whole


def test_a_link_to_another_file_is_not_followed(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    target = path.parent / "elsewhere"
    target.write_bytes(b"precious")
    path.symlink_to(target)
    with pytest.raises(InputError, match="cannot open the audit log"):
        AuditFile(path, "oslo-gateway")
    assert target.read_bytes() == b"precious"


def test_a_log_that_cannot_be_opened_any_more_is_counted_and_costs_no_other_file(
    path: Path, tmp_path: Path
) -> None:
    """As when somebody puts a link in its place while the process runs: what it has open is left alone."""
    with AuditFile(path, "oslo-gateway") as log:
        log.write(AuditKind.PROCESS_STARTED, {})
        path.rename(tmp_path / "aside")
        path.symlink_to(tmp_path / "elsewhere")
        log.write(AuditKind.PROCESS_STARTED, {})
        reading, writing = os.pipe()
        log.write(AuditKind.PROCESS_STARTED, {})
        assert log.failed == 2
        os.write(writing, b"still open")
        assert os.read(reading, 20) == b"still open"
        os.close(reading)
        os.close(writing)
        path.unlink()
        path.parent.rename(tmp_path / "folder aside")
        log.write(AuditKind.PROCESS_STARTED, {})
        assert log.failed == 2
    assert not (tmp_path / "elsewhere").exists()
    assert AuditKind.LOG_CHANGED in {entry.kind for entry in entries_in(path)}


def test_two_processes_cannot_write_one_file(path: Path) -> None:
    with (
        AuditFile(path, "oslo-gateway"),
        pytest.raises(InputError, match="another process writes"),
    ):
        AuditFile(path, "oslo-gateway", lock_wait_s=0.0)
    log_with(path, 1)


WRITER = """
import sys
from pathlib import Path
from mangrove.host.audit.operator_audit import note_operator
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.entry import AuditKind
for number in range(20):
    note_operator(RunDirectory(Path(sys.argv[1])), AuditKind.KEY_ISSUED, number=number)
"""


def test_commands_that_run_side_by_side_share_a_file_without_loss(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) for _ in range(3)]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    run = RunDirectory(tmp_path)
    assert processes_in(run) == [OPERATOR]
    report = report_of(run.audit_of(OPERATOR))
    assert (report.whole, report.entries) == (True, 60)


def test_who_called_is_in_the_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.setenv("SUDO_USER", "grace")
    run = RunDirectory(tmp_path)
    note_operator(run, AuditKind.KEY_REVOKED, domain="oslo")
    (entry,) = read_chain(run, OPERATOR)
    assert entry.facts == {"by": "grace as ada", "domain": "oslo"}


def test_a_disk_that_is_full_stops_nobody_and_is_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AuditFile(path, "oslo-gateway") as file:
        file.write(REFUSED, {})
        write = os.write

        def half(descriptor: int, data: bytes) -> int:
            return write(descriptor, data[: len(data) // 2])

        monkeypatch.setattr(os, "write", half)
        file.write(REFUSED, {})
        monkeypatch.undo()
        assert file.failed == 1
        file.write(REFUSED, {})
    report = report_of(path)
    assert (report.whole, report.torn_lines) == (True, 1)
