"""Who may connect to brokers, and what became of their keys."""

from __future__ import annotations

import pytest

from mangrove.model.security.users import DomainUsers, User, keys_only_replaced


def user(name: str, nkey: str, previous: str = "") -> User:
    return User(name=name, role="client", client=True, nkey=nkey, previous_nkey=previous)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([user("a", "1")], [user("a", "1")], False),  # nothing
        ([user("a", "1")], [user("a", "1"), user("b", "2")], False),  # somebody new
        ([user("a", "1")], [user("a", "2", "1")], False),  # both are believed
        ([user("a", "2", "1")], [user("a", "2")], True),  # the old one ends
        ([user("a", "2", "1"), user("b", "3")], [user("a", "2")], False),  # and somebody is sent away
        ([user("a", "1")], [], False),
        ([user("a", "1")], [user("a", "2")], False),  # revoked, and given another: sent away at once
    ],
)
def test_whether_keys_were_only_replaced(before: list[User], after: list[User], expected: bool) -> None:
    assert keys_only_replaced(before, after) is expected


def test_users_are_added_replaced_and_removed_in_their_place() -> None:
    users = DomainUsers().with_user(user("a", "1")).with_user(user("b", "2")).with_user(user("a", "3", "1"))
    assert [each.nkeys for each in users.users] == [("3", "1"), ("2",)]
    assert users.find("b") == user("b", "2")
    assert users.without("a").find("a") is None
