"""What is told of a key directory: what ends when, and what is believed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.kit.keyed import FEDERATION, made

from mangrove.cli.keys.warnings import key_warnings
from mangrove.errors import InputError
from mangrove.host.keys.certificates import AUTHORITY_DAYS, IDENTITY_DAYS, today
from mangrove.host.keys.checking import check_site
from mangrove.host.keys.inspection import WARN_DAYS, State, differences, inspect_keys
from mangrove.host.keys.making import make_keys, revoke, rotate
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import Part, finish, introduce_authority
from mangrove.model.endpoints import Runtime, fixed_endpoints
from mangrove.model.federation import Domain, Edge, Federation


def runtime(keys: Path | str) -> Runtime:
    endpoints = {name: fixed_endpoints(domain) for name, domain in FEDERATION.domains.items()}
    return Runtime(federation=FEDERATION, domains=endpoints, pid=1, keys=str(keys))


def test_the_end_is_told_before_it_comes(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    now = today()
    assert inspect_keys(keys.path).warnings == ()
    soon = inspect_keys(keys.path, now + timedelta(days=IDENTITY_DAYS - WARN_DAYS + 1))
    assert {each.state for each in soon.certificates} == {State.GOOD, State.ENDS_SOON}
    assert soon.good
    assert "the certificate of the gateway of a ends on" in soon.warnings[0]
    late = inspect_keys(keys.path, now + timedelta(days=IDENTITY_DAYS + 1))
    assert not late.good
    assert "has expired on" in late.warnings[0]
    last = inspect_keys(keys.path, now + timedelta(days=AUTHORITY_DAYS - 1))
    assert "the certificate of the authority ends on" in last.warnings[0]


def test_what_has_expired_does_not_start(tmp_path: Path) -> None:
    old = today() - timedelta(days=IDENTITY_DAYS + 1)
    keys = make_keys(FEDERATION, tmp_path / "keys", now=old)
    with pytest.raises(InputError, match="would be believed by nobody: its certificate has expired"):
        KeyRing.read(keys.domain("a").path)
    rotate(keys.path, parts=[Part.GATEWAY])
    with pytest.raises(InputError, match=r"a-head.pem has expired on \d+-\d+-\d+") as refused:
        check_site(keys.path, FEDERATION, "a")
    assert "--domain a --part brokers" in refused.value.hint
    rotate(keys.path, parts=[Part.BROKERS])
    check_site(keys.path, FEDERATION, "a")


def test_status_tells_of_keys(tmp_path: Path) -> None:
    assert key_warnings(runtime("")) == ()
    keys = made(tmp_path / "keys")
    assert key_warnings(runtime(keys.path)) == ()
    revoke(keys.path, "b")
    assert key_warnings(runtime(keys.path)) == (
        "the certificate of the gateway of b was revoked; replace it: mangrove keys rotate",
    )
    keys.trusted.unlink()
    assert key_warnings(runtime(keys.path)) == (f"the keys cannot be looked at: {keys.trusted} is missing",)


def test_what_overlaps_is_counted(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    assert inspect_keys(keys.path).overlapping == 0
    rotate(keys.path, domains=["b"], parts=[Part.SEALING, Part.CLIENTS])
    assert inspect_keys(keys.path).overlapping == 3  # a certificate, a sealing key, a client's NKEY
    introduce_authority(keys.path)
    report = inspect_keys(keys.path)
    assert (report.overlapping, report.authority_follows) == (3, True)
    finish(keys.path)
    report = inspect_keys(keys.path)
    assert (report.overlapping, report.authority_follows) == (0, True)
    assert (report.revoked_certificates, report.revoked_keys) == (1, 1)


def test_keys_are_compared_with_the_file(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    assert list(differences(inspect_keys(keys.path), FEDERATION)) == []
    changed = Federation(
        name="ring",
        domains={
            "a": Domain(name="a", base_port=7000, edges=(Edge(), Edge())),
            "c": Domain(name="c", base_port=7200),
        },
    )
    assert list(differences(inspect_keys(keys.path), changed)) == [
        "a-edge2 of a has no keys yet: mangrove keys init",
        "c has no keys yet: mangrove keys init",
        "the file has no domain b, whose keys are believed: mangrove keys revoke --domain b",
    ]
    revoke(keys.path, "b")
    keys.authority_key.unlink()  # as on the machine of a site
    assert list(differences(inspect_keys(keys.path), changed)) == []
