"""What was said last is kept within bounds, each of which is counted when it bites."""

from __future__ import annotations

from mangrove.client.mirroring.window import MAX_BYTES, MAX_MESSAGES, WINDOW_NS, Said, Window


def test_what_is_too_old_is_forgotten_without_a_word() -> None:
    window = Window()
    window.keep(Said(0, "t", b"old", 1))
    window.keep(Said(WINDOW_NS, "t", b"young", 2))
    window.keep(Said(WINDOW_NS + 1, "t", b"new", 3))
    assert [each.payload for each in window.some(window.first, 10)] == [b"young", b"new"]
    window.forget_older(3 * WINDOW_NS)
    assert len(window) == 0
    assert not window.shortened


def test_it_is_bounded_in_messages_and_bytes() -> None:
    window = Window()
    for number in range(MAX_MESSAGES + 3):
        window.keep(Said(0, "t", b"", number))
    assert len(window) == MAX_MESSAGES
    assert window.shortened == {"messages": 3}
    window.keep(Said(0, "t", bytes(MAX_BYTES // 2), 0))
    window.keep(Said(0, "t", bytes(MAX_BYTES // 2), 0))
    assert len(window) == 1, "the last is kept, and what fits beside it"
    assert window.shortened["bytes"] > 0
