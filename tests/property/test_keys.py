"""Whatever is done with keys, and wherever it is interrupted: all whom nobody revoked believe each other."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.kit.keyed import FEDERATION, CutError, cut_after, made, ring_of

from mangrove.errors import InputError
from mangrove.host.keys.checking import check_site
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.change import complete_interrupted
from mangrove.host.keys.making import issue_client, revoke, rotate
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import Part, change_authority, finish, introduce_authority

DOMAINS = sorted(FEDERATION.domains)
domains = st.sampled_from(DOMAINS)


class KeyLife(RuleBasedStateMachine):
    """One key directory, and what each site has of it: the same, or that of one step before."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.keys = made(Path(self.folder.name) / "keys")
        self.before = self.rings()
        self.stolen: list[KeyRing] = []
        self.clients = {domain: {"client"} for domain in DOMAINS}
        self.authority_follows = False

    def teardown(self) -> None:
        self.folder.cleanup()

    def rings(self) -> dict[str, KeyRing]:
        found = {}
        for domain in DOMAINS:
            with contextlib.suppress(InputError):  # revoked: it does not even start
                found[domain] = ring_of(self.keys, domain)
        return found

    @rule(domain=domains, parts=st.sets(st.sampled_from(Part), min_size=1))
    def replace_some(self, domain: str, parts: set[Part]) -> None:
        self.before = self.rings()
        rotate(self.keys.path, domains=[domain], parts=parts)

    @rule(cut=st.integers(0, 60))
    def be_interrupted(self, cut: int) -> None:
        """The process dies while it replaces users, and the next command completes or forgets it."""
        self.before = self.rings()
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(CutError):
            cut_after(cut, patch)
            rotate(self.keys.path, parts=[Part.USERS, Part.SEALING])
        complete_interrupted(self.keys)

    @rule()
    def end_the_overlap(self) -> None:
        finish(self.keys.path)
        self.before = self.rings()

    @precondition(lambda self: not self.authority_follows)
    @rule()
    def introduce(self) -> None:
        self.before = self.rings()
        introduce_authority(self.keys.path)
        self.authority_follows = True

    @precondition(lambda self: self.authority_follows)
    @rule()
    def change(self) -> None:
        self.before = self.rings()
        change_authority(self.keys.path)
        self.authority_follows = False

    @rule(domain=domains)
    def revoke_a_site_and_give_it_new_keys(self, domain: str) -> None:
        self.stolen.append(ring_of(self.keys, domain))
        revoke(self.keys.path, domain)
        rotate(self.keys.path, domains=[domain], parts=[Part.GATEWAY, Part.SEALING])
        self.before = self.rings()

    @rule(domain=domains, name=st.sampled_from(["x", "y"]))
    def issue_or_revoke_a_client(self, domain: str, name: str) -> None:
        if name in self.clients[domain]:
            revoke(self.keys.path, domain, client=name)
            self.clients[domain].remove(name)
        else:
            issue_client(self.keys.path, domain, name)
            self.clients[domain].add(name)

    @invariant()
    def all_is_whole(self) -> None:
        assert not self.keys.pending.exists()
        for domain in DOMAINS:
            check_site(self.keys.path, FEDERATION, domain)

    @invariant()
    def who_is_a_step_behind_is_believed_and_believes(self) -> None:
        now = self.rings()
        assert set(now) == set(DOMAINS)
        for ring in now.values():
            for other in (*now.values(), *self.before.values()):
                assert ring.still_trusted(other.credential) == other.still_trusted(ring.credential) == ""

    @invariant()
    def what_was_stolen_is_worth_nothing(self) -> None:
        for ring in self.rings().values():
            assert all(ring.still_trusted(each.credential) for each in self.stolen)

    @invariant()
    def brokers_know_the_clients_that_there_are(self) -> None:
        for domain, ring in self.rings().items():
            assert {user.name for user in ring.users() if user.client} == self.clients[domain]
            for user in ring.users():
                assert ring.login(user.name).nkey == user.nkey


TestKeyLife = KeyLife.TestCase
TestKeyLife.settings = settings(max_examples=4, stateful_step_count=6, deadline=None)


def test_who_reads_while_keys_are_changed_finds_them_whole(tmp_path: Path) -> None:
    keys: KeyDirectory = made(tmp_path / "keys")
    done = threading.Event()
    generations: set[int] = set()
    problems: list[str] = []

    def read() -> None:
        while not done.is_set():
            try:
                generations.add(ring_of(keys, "a").generation)
            except InputError as error:
                problems.append(error.message)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(6):
        rotate(keys.path, parts=[Part.GATEWAY, Part.SEALING, Part.USERS])
        finish(keys.path)
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []
    assert len(generations) > 3
