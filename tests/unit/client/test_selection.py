"""What a subscription selects: judged by the SDK, told to brokers by a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.command import mangrove
from tests.kit.received import Fed, received

from mangrove.client.message import MessageIds
from mangrove.client.selection import selection_of
from mangrove.errors import InputError
from mangrove.model.selectors.group_names import MAX_ENCODED_BYTES, selector_in
from mangrove.model.selectors.selector import Selector


async def test_only_what_is_selected_is_read_and_waits() -> None:
    fed, ids = Fed(where="n>1", max_pending=2), MessageIds()
    several = [received("s", b"%d" % number, {"n": str(number)}, ids) for number in range(5)]
    fed.feed(*several)
    fed.feed(*several[3:])
    subscription = fed.subscription
    assert [(await subscription.next()).data for _ in range(2)] == [b"3", b"4"]
    assert (subscription.messages, subscription.unselected, subscription.duplicates) == (7, 2, 2)
    assert fed.dropped == {"s": 1}, "what is not selected takes no room: three waited where two may"
    assert (subscription.where, subscription.pending) == ("n > 1", 0)


async def test_everything_is_read_without_a_selector() -> None:
    fed = Fed()
    fed.feed(received("s", b"1"))
    assert (await fed.subscription.next()).data == b"1"
    assert (fed.subscription.where, fed.subscription.unselected, fed.subscription.new_group()) == ("", 0, "")


def test_each_place_where_it_is_served_has_another_name_for_the_same_selector() -> None:
    selection = selection_of("n>1", "", told=True)
    assert selection is not None
    groups = {selection.new_group() for _ in range(10)}
    assert len(groups) == 10
    assert {selector_in(group) for group in groups} == {Selector("n > 1")}


@pytest.mark.parametrize(
    ("where", "told"), [("n > 1", False), ("n = '" + "x" * MAX_ENCODED_BYTES + "'", True)]
)
def test_what_is_not_told_is_subscribed_to_plainly(where: str, told: bool) -> None:
    selection = selection_of(where, "", told=told)
    assert selection is not None
    assert selection.new_group() == ""


def test_members_of_queue_groups_do_not_select() -> None:
    with pytest.raises(InputError, match="a member of a queue group cannot select"):
        selection_of("n > 1", "workers", told=True)
    with pytest.raises(InputError, match="where must be a text, not int"):
        selection_of(3, "", told=True)  # type: ignore[arg-type]


def test_the_command_line_tells_a_mistake_before_it_connects(tmp_path: Path) -> None:
    told = mangrove("sub", "x", "--where", "severity > high", "--run-dir", tmp_path)
    assert told.returncode == 2
    assert "at character 12" in told.stderr
    assert "write text in quotes: 'high'" in told.stderr
