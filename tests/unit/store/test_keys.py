"""Keys that JetStream takes, for any topic."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mangrove.store.keys import MAX_KEY_BYTES, store_key

ACCEPTED = re.compile(r"^[-/_=\.a-zA-Z0-9]+$")


@given(st.text(max_size=60), st.text(max_size=60))
def test_every_text_has_a_key_of_its_own(first: str, second: str) -> None:
    for text in (first, second):
        key = store_key(text)
        assert ACCEPTED.match(key)
        assert not key.startswith(".")
        assert not key.endswith(".")
        assert ".." not in key
    assert (store_key(first) == store_key(second)) == (first == second)


def test_topics_stay_readable_and_long_ones_stay_short() -> None:
    assert store_key("plant.9.oil") == "plant.9.oil"
    assert store_key("plant.*.>") == "plant.=2A.=3E"
    long, other = "x" * 4000, "x" * 4001
    assert store_key(long) != store_key(other)
    assert len(store_key(long)) <= MAX_KEY_BYTES
