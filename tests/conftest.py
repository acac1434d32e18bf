"""For all tests: hypothesis prints what repeats a failure, engines are validated, no process is left."""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Iterator

import pytest
from hypothesis import settings
from nats.aio.client import Client
from tests.kit import secured_runs
from tests.kit.leftovers import leftovers

from mangrove.host.nats_connecting import end_attempts
from mangrove.overlay.engine import OverlayEngine

# `make test` tries the same examples every time, so that a change is judged by what it changes;
# `make explore` tries new ones.
settings.register_profile("repeat", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("MANGROVE_EXAMPLES", "repeat"))

# A shell without job control starts what runs in the background deaf to Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

if secured_runs.WANTED:
    secured_runs.secure_all()


@pytest.fixture(autouse=True)
def _engines_hold_their_invariants(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every engine that a test makes is validated at its end."""
    made: weakref.WeakSet[OverlayEngine] = weakref.WeakSet()
    initialise = OverlayEngine.__init__

    def remember(self: OverlayEngine, *arguments: object, **options: object) -> None:
        initialise(self, *arguments, **options)  # type: ignore[arg-type]
        made.add(self)

    monkeypatch.setattr(OverlayEngine, "__init__", remember)
    yield
    for engine in made:
        engine.validate()


@pytest.fixture(autouse=True, scope="session")
def _plain_clients_are_closed_for_good() -> Iterator[None]:
    """Brokers are killed under plain clients all the time, and these are closed while they connect again."""
    close = Client.close

    async def closed(client: Client) -> None:
        await end_attempts(client)
        await close(client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "close", closed)
        yield


@pytest.fixture(autouse=True, scope="module")
def nothing_left_behind() -> Iterator[None]:
    """After each module none of our processes runs below this one."""
    yield
    assert not (left := leftovers()), f"still running: {left}"
