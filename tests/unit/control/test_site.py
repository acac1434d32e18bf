"""What an agent knows of its own site."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.kit.engines import federation

from mangrove.control.site import Site
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.topics import Contract, Scope, TopicRules

RULES = TopicRules(
    (
        Contract(match="home.>", scope=Scope.DOMAIN),
        Contract(match="secret.>", confidential=True),
        Contract(match="open.>"),
    )
)


@pytest.mark.parametrize(
    ("topic", "may"),
    [("open.x", True), ("other", True), ("home.x", False), ("secret.x", False), (">", False), ("*.x", False)],
)
def test_clients_are_not_moved_abroad_with_what_stays_or_is_confidential(topic: str, may: bool) -> None:
    shape = replace(federation(("a", "b")), topics=RULES)
    assert Site(shape, fixed_endpoints(shape.domains["a"])).may_leave(topic) is may
