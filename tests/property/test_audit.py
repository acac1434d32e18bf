"""Whatever is done to an audit log by somebody who cannot rewrite all that follows, it shows."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mangrove.host.audit.audit_file import AuditFile, files_of
from mangrove.host.audit.reading import check_logs
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.check import check_chain
from mangrove.model.audit.entry import AuditHead, AuditKind

PROCESS = "oslo-gateway"
LIVES = st.lists(st.integers(1, 12), min_size=1, max_size=4)


def written(folder: Path, lives: list[int], cuts: list[int]) -> tuple[Path, AuditHead]:
    """A log of several lives; each but the last dies so many bytes before the end of its last line."""
    path = RunDirectory(folder).audit_of(PROCESS)
    head = AuditHead(process=PROCESS)
    for life, count in enumerate(lives):
        with AuditFile(path, PROCESS, max_bytes=1_500, kept_files=2, clock=lambda: 1e9) as file:
            for number in range(count):
                file.write(AuditKind.CONNECTION_REFUSED, {"host": f"10.0.{life}.{number}"})
            head = file.head
        cut = cuts[life] if life < min(len(lives) - 1, len(cuts)) else 0
        last_line_bytes = len(path.read_bytes().splitlines(keepends=True)[-1])
        with path.open("r+b") as raw:
            raw.truncate(path.stat().st_size - min(cut, last_line_bytes - 1))
    return path, head


@given(LIVES, st.lists(st.integers(0, 300), max_size=4))
@settings(max_examples=50)
def test_a_log_of_any_lives_and_crashes_is_whole(lives: list[int], cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _, head = written(Path(folder), lives, cuts)
        (report,) = check_logs(RunDirectory(Path(folder)), [head])
        assert report.whole, report.findings
        assert report.head == head


@given(LIVES, st.data())
@settings(max_examples=150)
def test_any_change_of_any_byte_is_found(lives: list[int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, head = written(Path(folder), lives, [])
        files = [(each.name, each.read_bytes()) for each in files_of(path)]
    assert check_chain(PROCESS, files, [head]).whole
    which = data.draw(st.integers(0, len(files) - 1))
    name, content = files[which]
    place = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.sampled_from(["flip", "remove", "insert", "cut"]))
    if change == "flip":
        other = data.draw(st.integers(0, 255).filter(lambda value: value != content[place]))
        changed = content[:place] + bytes([other]) + content[place + 1 :]
    elif change == "remove":
        end = data.draw(st.integers(place + 1, len(content)))
        changed = content[:place] + content[end:]
    elif change == "insert":
        added = data.draw(st.binary(min_size=1, max_size=20))
        changed = content[:place] + added + content[place:]
    else:
        changed = content[:place]
    if changed in (content, content[:-1]):
        return
    files[which] = (name, changed)
    assert not check_chain(PROCESS, files, [head]).whole


@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans())
@example([b'{"number":1}'], True)
def test_any_bytes_can_be_checked(lines: list[bytes], ended: bool) -> None:
    content = b"\n".join(lines) + (b"\n" if ended else b"")
    check_chain(PROCESS, [("x", content)])
