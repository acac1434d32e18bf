from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.broker.client_connection import Denial
from mangrove.broker.nats.client.denials import parse_denial

SUBJECTS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=" "), min_size=1, max_size=40
)


@pytest.mark.parametrize(
    ("complaint", "expected"),
    [
        ('Permissions Violation for Publish to "a.b"', Denial(publishing=True, subject="a.b")),
        ('permissions violation for publish to "a"', Denial(publishing=True, subject="a")),
        (
            'Permissions Violation for Publish with Reply of "r.1"',
            Denial(publishing=True, subject="", reply="r.1"),
        ),
        ('Permissions Violation for Subscription to "a.>"', Denial(publishing=False, subject="a.>")),
        (
            'Permissions Violation for Subscription to "a.*" using queue "q" (sid "17")',
            Denial(publishing=False, subject="a.*", queue="q", sid=17),
        ),
        (
            'Permissions Violation for Subscription to "a.b.c", too many tokens',
            Denial(publishing=False, subject="a.b.c"),
        ),
        ("Authorization Violation", None),
        ("Permissions Violation for something new", None),
    ],
)
def test_complaints_of_a_server_are_understood(complaint: str, expected: Denial | None) -> None:
    assert parse_denial(complaint) == expected


@given(SUBJECTS, SUBJECTS)
def test_whatever_the_subject_it_is_the_one_that_was_asked_for(subject: str, queue: str) -> None:
    quoted, group = json.dumps(subject), json.dumps(queue)
    assert parse_denial(f"Permissions Violation for Publish to {quoted}") == Denial(
        publishing=True, subject=subject
    )
    found = parse_denial(f'Permissions Violation for Subscription to {quoted} using queue {group} (sid "3")')
    assert found == Denial(publishing=False, subject=subject, queue=queue, sid=3)


@given(st.text(max_size=200))
def test_nothing_that_a_server_may_say_is_too_much(complaint: str) -> None:
    parse_denial(complaint)
    parse_denial(f"Permissions Violation for Subscription to {complaint}")
