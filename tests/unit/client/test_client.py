"""Parts of the SDK that need no broker."""

from __future__ import annotations

import pytest

from mangrove.client.message import MessageIds, stamped
from mangrove.client.recent_ids import RecentIds
from mangrove.errors import InputError
from mangrove.model.shared_names import ID_HEADER


def test_second_copies_are_recognised_within_the_window() -> None:
    recent = RecentIds(remembered=3)
    assert [recent.is_new("s", identity) for identity in "abab"] == [True, True, False, False]
    assert recent.is_new("other", "a"), "another subject is another message"
    assert recent.is_new("s", "c")
    assert recent.is_new("s", "a"), "too long ago"
    assert recent.duplicates == 2
    assert recent.is_new("s", None)
    assert recent.is_new("s", None), "plain NATS messages carry no id"


def test_ids_are_unique_and_users_headers_are_kept() -> None:
    ids = MessageIds()
    made = [stamped({"K": "v"}, ids) for _ in range(100)]
    assert len({headers[ID_HEADER] for headers in made}) == 100
    assert all(headers["K"] == "v" for headers in made)
    assert stamped({ID_HEADER: "mine"}, ids)[ID_HEADER] == "mine"


@pytest.mark.parametrize(
    "headers", [{"": "x"}, {"a:b": "x"}, {"a": "x\r\ny"}, {"a b": "x"}, {"ä": "x"}, {"a": "x\ny"}]
)
def test_headers_that_would_break_the_protocol_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InputError):
        stamped(headers, MessageIds())
