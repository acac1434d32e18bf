"""Audit logs of a run, as commands read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.host.audit.audit_file import SUFFIX, files_of
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.check import ChainCheck, ChainReport
from mangrove.model.audit.entry import AuditEntry, AuditHead, read_entry
from mangrove.model.unreadable import UNREADABLE

_heads = msgspec.json.Decoder(list[AuditHead])


def processes_in(run: RunDirectory) -> list[str]:
    """The processes that have written an audit log."""
    names = {path.name.partition(SUFFIX)[0] for path in run.audit.glob(f"*{SUFFIX}*")}
    return sorted(names)


def read_chain(run: RunDirectory, process: str) -> list[AuditEntry]:
    """The entries of one process; lines that are none are left out, which `check` tells."""
    entries: list[AuditEntry] = []
    for path in files_of(run.audit_of(process)):
        if path.exists():
            found = map(read_entry, path.read_bytes().split(b"\n"))
            entries += [entry for entry in found if entry is not None]
    return entries


def check_logs(run: RunDirectory, heads: Iterable[AuditHead] = ()) -> list[ChainReport]:
    """Check the logs of all processes, and of those that only a head is known of."""
    by_process: dict[str, list[AuditHead]] = {}
    for head in heads:
        by_process.setdefault(head.process, []).append(head)
    reports = []
    for process in sorted({*processes_in(run), *by_process}):
        check = ChainCheck(process, by_process.get(process, ()))
        for path in files_of(run.audit_of(process)):
            if path.exists():
                check.file(path.name, path.read_bytes())
        reports.append(check.report())
    return reports


def read_heads(path: Path) -> list[AuditHead]:
    """Heads that were kept elsewhere, as `mangrove audit heads --json` wrote them."""
    try:
        return _heads.decode(path.read_bytes())
    except (OSError, *UNREADABLE) as error:
        raise InputError(
            f"cannot read the heads in {path}: {error}",
            hint="it is what `mangrove audit heads --json` printed at an earlier time",
        ) from None
