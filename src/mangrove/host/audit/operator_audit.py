"""What an operator did on the command line: an entry in a file that all commands of a run share."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from mangrove.host.audit.audit_file import AuditFile
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.entry import AuditKind, Fact, clean_facts

OPERATOR = "operator"
"""What the commands together are called among the processes that keep an audit log."""


def note_operator(run: RunDirectory, kind: AuditKind, **facts: Fact) -> None:
    """Write down what a command did, and who called it. Nothing is left out, however many there are."""
    with AuditFile(run.audit_of(OPERATOR), OPERATOR) as file:
        told = {name: fact for name, fact in facts.items() if fact != ""}
        file.write(kind, clean_facts({"by": user_name(), **told}))


def run_of_keys(directory: Path) -> RunDirectory:
    """Where it is written down what was done to a key directory: with its run, or else in itself."""
    run = RunDirectory(directory.parent)
    return run if run.keys == directory else RunDirectory(directory)


def user_name() -> str:
    """Who calls: the user, and behind `sudo` who became that user."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        name = str(os.getuid())
    before = os.environ.get("SUDO_USER", "")
    return f"{before} as {name}" if before and before != name else name
