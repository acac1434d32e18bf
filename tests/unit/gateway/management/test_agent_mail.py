"""What agents say to agents, in the gateway: who is posted to, and what is counted instead."""

from __future__ import annotations

from collections import Counter

from mangrove.gateway.management.agent_mail import BROKER_AWAY, NOT_LINKED, UNREAD, AgentMail
from mangrove.model.agents.names import to_peer_subject


class Post:
    """Keeps what was sent, and counts what was not."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.ignored: Counter[str] = Counter()
        self.mail = AgentMail(
            "a",
            ("b", "c"),
            send=lambda peer, body: self.sent.append((peer, body)),
            ignored=lambda what: self.ignored.update([what]),
        )


async def test_what_is_posted_goes_to_linked_domains_alone() -> None:
    post = Post()
    post.mail.posted(to_peer_subject("a", "b"), b"word")
    post.mail.posted(to_peer_subject("a", "x"), b"word")
    post.mail.posted(to_peer_subject("a", "a"), b"word")
    assert post.sent == [("b", b"word")]
    assert post.ignored == {NOT_LINKED: 2}


async def test_what_comes_while_the_broker_is_away_is_counted() -> None:
    post = Post()
    post.mail.arrived("b", b"word")
    post.mail.unread()
    assert post.ignored == {BROKER_AWAY: 1, UNREAD: 1}
