"""The files of one run of a federation: every path in a run directory is made here."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class RunDirectory(msgspec.Struct, frozen=True):
    """Where a federation that runs on this machine keeps its files.

    Nothing is created here; who writes a file makes its folder.
    """

    path: Path

    @property
    def lock(self) -> Path:
        """Held by the process that runs the federation."""
        return self.path / "lock"

    @property
    def runtime(self) -> Path:
        """Where everything listens, for the commands that look for it."""
        return self.path / RUNTIME_FILE

    # -- processes ----------------------------------------------------------------------------------------

    @property
    def logs(self) -> Path:
        """The folder of all logs."""
        return self.path / "logs"

    def log(self, process: str) -> Path:
        """Where a process of that name logs."""
        return self.logs / f"{process}.log"

    def settings(self, process: str) -> Path:
        """What a process of ours is told when it starts."""
        return self.path / f"{process}.json"

    def broker_config(self, broker: str) -> Path:
        """The configuration file of a broker, in the broker's own language."""
        return self.path / f"{broker}.conf"

    def broker_store(self, broker: str) -> Path:
        """The folder where a broker keeps streams and sessions."""
        return self.path / broker / "jetstream"

    def broker_home(self, broker: str) -> Path:
        """The folder of a broker that has more than one file."""
        return self.path / broker

    # -- gateways -----------------------------------------------------------------------------------------

    @property
    def events(self) -> Path:
        """The folder where the gateways write down what happened."""
        return self.path / "events"

    def events_of(self, domain: str) -> Path:
        """What happened at a gateway, one JSON document a line."""
        return self.events / f"{domain}.jsonl"

    def journal_of(self, domain: str) -> Path:
        """The ring of frames that a gateway delivered last."""
        return self.path / "delivered" / f"{domain}.ring"

    def stimuli_of(self, domain: str) -> Path:
        """The ring of what a gateway's engine was told last, to be replayed."""
        return self.path / "stimuli" / f"{domain}.ring"

    def versions_of(self, domain: str) -> Path:
        """The folder where the gateway of a domain keeps the versions of the federation document."""
        return self.path / "versions" / domain

    @property
    def reloaded(self) -> Path:
        """What the site was told to take over from a changed file since it was started."""
        return self.path / "reloaded.json"

    def followed_versions_of(self, domain: str) -> Path:
        """The folder where a host without a gateway writes down what is in force in its domain."""
        return self.path / "versions" / f"{domain}.followed"

    # -- audit --------------------------------------------------------------------------------------------

    @property
    def audit(self) -> Path:
        """The folder where processes write down who connected, was refused, or changed something."""
        return self.path / "audit"

    def audit_of(self, process: str) -> Path:
        """The audit log of one process; full files have a number after this name."""
        return self.audit / f"{process}.jsonl"

    # -- keys ---------------------------------------------------------------------------------------------

    @property
    def keys(self) -> Path:
        """The key directory, unless it is kept elsewhere; what is in it is said by `host.keys.directory`."""
        return self.path / "keys"

    # -- telemetry ----------------------------------------------------------------------------------------

    @property
    def telemetry(self) -> Path:
        """The telemetry lake, unless it is kept elsewhere."""
        return self.path / "telemetry"


RUNTIME_FILE = "runtime.json"


def state_directory() -> Path:
    """Where run directories are kept by default: MANGROVE_STATE_DIR, or the user's state directory."""
    override = os.environ.get("MANGROVE_STATE_DIR")
    if override:
        return Path(override)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "mangrove"


def default_run_directory(federation: str) -> RunDirectory:
    """Where a federation of that name runs unless told otherwise."""
    return RunDirectory(state_directory() / federation)


def known_run_directories() -> list[RunDirectory]:
    """The run directories below the state directory in which a federation has ever been up."""
    return [RunDirectory(path.parent) for path in sorted(state_directory().glob(f"*/{RUNTIME_FILE}"))]
