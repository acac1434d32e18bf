"""Is the chain of an audit log whole? Pure: lines in, findings out.

The hash of a line is in the line after it: who changes, removes, adds or moves a line must change all that
follow. Who can rewrite a whole file, up to its end, is found by heads that are kept elsewhere alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from mangrove.model.audit.entry import BEGINNING, AuditEntry, AuditHead, AuditKind, line_hash, read_entry

MAX_FINDINGS = 100


class Problem(StrEnum):
    """What is wrong with a chain."""

    CHANGED = "changed"
    """The hash that the next entry names is not that of this line."""
    MISSING = "missing"
    """Numbers are left out."""
    MOVED = "moved"
    """A number that was there before, or a later one."""
    UNREADABLE = "unreadable"
    """A line that is no entry, and that no crash accounts for."""
    TORN = "torn"
    """The last line has no end: the process died while it wrote, or somebody cut the file."""
    SHORTENED = "shortened"
    """Entries of a head that is known from elsewhere are not there."""
    REPLACED = "replaced"
    """The entry of a head that is known from elsewhere is another."""
    FOREIGN = "foreign"
    """An entry of another process."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong."""

    problem: Problem
    file: str
    line: int
    """Counted from 1; 0: of the whole file."""
    detail: str


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found about the log of one process."""

    process: str
    entries: int
    first: int
    """Number of the first entry that is kept; 0: there is none."""
    head: AuditHead
    torn_lines: int
    """Lines that a crash tore and a later entry accounts for."""
    findings: tuple[Finding, ...] = ()
    unnamed_findings: int = 0

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class ChainCheck:
    """Goes through the files of one process in order, line by line."""

    def __init__(self, process: str, heads: Iterable[AuditHead] = ()) -> None:
        """`heads`: ends of this chain at earlier times, known from elsewhere."""
        self._process = process
        self._heads = {head.number: head for head in heads if head.number}
        self._number = 0
        self._first = 0
        self._digest = ""
        self._entries = 0
        self._kept_from = 1
        self._torn: tuple[str, int, bytes] | None = None
        self._torn_lines = 0
        self._findings: list[Finding] = []
        self._unnamed = 0

    def file(self, name: str, content: bytes) -> None:
        """The next file of the chain."""
        *lines, rest = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            self._line(name, number, line)
        if rest:
            self._settle_torn()
            self._torn = (name, len(lines) + 1, rest)

    def report(self) -> ChainReport:
        """All files were given."""
        if self._torn is not None:
            file, line, rest = self._torn
            self._find(Problem.TORN, file, line, f"the last line has no end ({len(rest)} bytes)")
        if self._first > self._kept_from:
            missing = f"entries {self._kept_from} to {self._first - 1} should still be there"
            self._find(Problem.MISSING, "", 0, missing)
        for head in self._heads.values():
            if head.number > self._number:
                text = f"entry {head.number} was the last once, and {self._number} is now"
                self._find(Problem.SHORTENED, "", 0, text)
        return ChainReport(
            process=self._process,
            entries=self._entries,
            first=self._first,
            head=AuditHead(process=self._process, number=self._number, digest=self._digest or BEGINNING),
            torn_lines=self._torn_lines,
            findings=tuple(self._findings),
            unnamed_findings=self._unnamed,
        )

    def _line(self, file: str, number: int, line: bytes) -> None:
        entry = read_entry(line)
        if entry is None:
            self._settle_torn()
            self._torn = (file, number, line)
            return
        if self._torn is not None and _accounts_for(entry, self._torn[2]):
            self._torn = None
            self._torn_lines += 1
        self._settle_torn()
        self._follow(file, number, entry)
        self._number, self._digest = entry.number, line_hash(line)
        self._entries += 1
        head = self._heads.get(entry.number)
        if head is not None and head.digest != self._digest:
            self._find(Problem.REPLACED, file, number, f"entry {entry.number} was another once")
        if entry.kind is AuditKind.LOG_CONTINUED and isinstance(kept := entry.facts.get("kept_from"), int):
            self._kept_from = kept

    def _follow(self, file: str, number: int, entry: AuditEntry) -> None:
        """Whether an entry comes after the one before it."""
        if entry.process != self._process:
            self._find(Problem.FOREIGN, file, number, f"an entry of {entry.process}")
        if not self._entries:
            self._first = entry.number
            if entry.number == 1 and entry.before != BEGINNING:
                self._find(Problem.CHANGED, file, number, "entry 1 names one before it")
            return
        if entry.number > self._number + 1:
            text = f"entries {self._number + 1} to {entry.number - 1} are missing"
            self._find(Problem.MISSING, file, number, text)
        elif entry.number <= self._number:
            self._find(Problem.MOVED, file, number, f"entry {entry.number} comes after {self._number}")
        elif entry.before != self._digest:
            text = f"entry {self._number} is not what was written, or {entry.number} is not"
            self._find(Problem.CHANGED, file, number, text)

    def _settle_torn(self) -> None:
        """A line that cannot be read, and that the next entry does not account for."""
        if self._torn is not None:
            file, number, line = self._torn
            self._torn = None
            self._find(Problem.UNREADABLE, file, number, f"{len(line)} bytes that are no entry")

    def _find(self, problem: Problem, file: str, line: int, detail: str) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(Finding(problem=problem, file=file, line=line, detail=detail))
        else:
            self._unnamed += 1


def _accounts_for(entry: AuditEntry, torn: bytes) -> bool:
    return entry.kind is AuditKind.LOG_TORN and entry.facts.get("sha256") == line_hash(torn)


def check_chain(
    process: str, files: Sequence[tuple[str, bytes]], heads: Iterable[AuditHead] = ()
) -> ChainReport:
    """Check the log of one process, whose files are given in order, oldest first."""
    check = ChainCheck(process, heads)
    for name, content in files:
        check.file(name, content)
    return check.report()
