"""A link has one name and one order, whichever end is named first."""

from __future__ import annotations

from mangrove.model.federation import Link
from mangrove.model.site_pair import link_name, site_pair


def test_the_order_of_naming_does_not_matter() -> None:
    assert site_pair("west", "east") == site_pair("east", "west") == ("east", "west")
    assert link_name("west", "east") == link_name("east", "west") == "east--west"


def test_of_a_link_the_first_by_name_calls() -> None:
    for between in (("west", "east"), ("east", "west")):
        link = Link(between=between)
        assert (link.caller, link.callee) == link.pair == ("east", "west")
