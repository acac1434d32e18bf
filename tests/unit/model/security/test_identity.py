"""Identities are written as URIs, and no two URIs stand for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.security.identity import NAME, Identity, Role

names = st.from_regex(NAME, fullmatch=True).filter(str.isascii)
identities = st.builds(Identity, names, st.sampled_from(Role), names, names | st.just(""))


@given(identities)
def test_an_identity_is_read_back(identity: Identity) -> None:
    assert Identity.parse(identity.uri) == identity


@given(st.text())
def test_a_text_is_the_uri_of_one_identity_or_of_none(text: str) -> None:
    for candidate in (text, f"mangrove://{text}", f"mangrove://ring/gateway/{text}"):
        try:
            identity = Identity.parse(candidate)
        except ValueError:
            continue
        assert identity.uri == candidate


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "mangrove://ring/gateway",
        "mangrove://ring/gateway/a/b/c",
        "mangrove://ring/gateway/a/",
        "mangrove://ring//a",
        "mangrove://ring/king/a",
        "https://ring/gateway/a",
        "MANGROVE://ring/gateway/a",
        "mangrove://ring/gateway/a%2fb",
        "mangrove://ring/gateway/..",
        "mangrove://ring/gateway/a\n",
    ],
)
def test_what_names_nobody_is_refused(uri: str) -> None:
    with pytest.raises(ValueError):
        Identity.parse(uri)
