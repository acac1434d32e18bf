"""NKEYs are those of nats-io: compared with its own library."""

from __future__ import annotations

import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.host.keys.nkey import UserKey, is_user_nkey


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=64))
def test_seed_public_half_and_signature_are_those_of_the_library(raw: bytes, nonce: bytes) -> None:
    mine = UserKey(raw)
    seed = nkeys.encode_seed(raw, nkeys.PREFIX_BYTE_USER)
    theirs = nkeys.from_seed(bytearray(seed))
    assert mine.seed == seed.decode()
    assert mine.public == theirs.public_key.decode()
    assert mine.sign(nonce) == theirs.sign(nonce)
    assert UserKey.from_seed(mine.seed).public == mine.public
    assert is_user_nkey(mine.public)


@given(st.data())
def test_one_wrong_letter_is_noticed(data: st.DataObject) -> None:
    seed = UserKey(bytes(32)).seed
    place = data.draw(st.integers(0, len(seed) - 1))
    letter = data.draw(
        st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567").filter(lambda each: each != seed[place])
    )
    with pytest.raises(ValueError, match="not"):
        UserKey.from_seed(seed[:place] + letter + seed[place + 1 :])


@pytest.mark.parametrize("text", ["", "SU", "hello", "SUAA====", "ä" * 58])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not"):
        UserKey.from_seed(text)
    assert not is_user_nkey(text)


def test_the_seed_of_an_account_is_not_that_of_a_user() -> None:
    seed = nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_ACCOUNT).decode()
    with pytest.raises(ValueError, match="SU"):
        UserKey.from_seed(seed)


def test_a_key_does_not_show_itself() -> None:
    key = UserKey.make()
    assert key.seed not in repr(key)
    assert key.seed not in str(key)
