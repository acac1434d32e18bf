"""Two sockets to one server, however their buffers fall: each message is handed over once, and in order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.broker.client_connection import RawMessage
from mangrove.broker.message_ids import ID_START
from mangrove.broker.nats.client.overlap import SocketOverlap
from mangrove.broker.nats.client.scanner import Inlet
from mangrove.model.selectors.group_names import beside, selecting_group, selector_in
from mangrove.model.selectors.selector import Selector

HEAD = ID_START + b"%b\r\n\r\n"
MARKER = "marker"


def message(number: int, content: int, *, with_id: bool) -> RawMessage:
    """Those without an id differ in their content alone, of which there is little."""
    return RawMessage("a", b"%d" % content, HEAD % (b"p%d" % number) if with_id else b"", "")


class Server:
    """Sends what is published to all sockets that are subscribed; each reads at its own pace."""

    def __init__(self) -> None:
        self.taken: list[RawMessage] = []
        self.inlet = Inlet(1, "a", "", self._take, RawMessage, None)
        self.overlap = SocketOverlap(marked=True)
        self.waiting: dict[str, list[RawMessage | str]] = {"old": [], "new": []}
        self.subscribed = {"old": True, "new": False}
        self.published: list[RawMessage] = []

    def _take(self, messages: list[RawMessage], size_bytes: int) -> None:
        self.taken += messages

    def publish(self, each: RawMessage) -> None:
        self.published.append(each)
        for socket, there in self.subscribed.items():
            if there:
                self.waiting[socket].append(each)

    def mark(self, straddling: list[tuple[RawMessage, bool]] | None = None) -> None:
        """A marker, and messages that are under way: before it on one socket, behind it on the other."""
        for each, first in straddling or []:
            self.published.append(each)
            self.waiting["old" if first else "new"].append(each)
        for waiting in self.waiting.values():
            waiting.append(MARKER)
        for each, first in straddling or []:
            self.waiting["new" if first else "old"].append(each)

    def read(self, socket: str, many: int) -> None:
        """A buffer, which may hold the marker between messages."""
        gate = self.overlap.old if socket == "old" else self.overlap.new
        buffer, self.waiting[socket] = self.waiting[socket][:many], self.waiting[socket][many:]
        for each in buffer:
            if isinstance(each, str):
                gate.mark({1: self.inlet})
            else:
                self.inlet.messages.append(each)
        messages, self.inlet.messages = self.inlet.messages, []
        if messages:
            gate(self.inlet, messages, len(messages))
        gate.end_buffer()


@settings(max_examples=150, deadline=None)
@given(
    stages=st.lists(st.lists(st.booleans(), max_size=6), min_size=6, max_size=6),
    contents=st.lists(st.integers(0, 1), min_size=60, max_size=60),
    straddling=st.lists(st.booleans(), max_size=3),
    reads=st.lists(st.tuples(st.sampled_from(("old", "new")), st.integers(1, 5)), max_size=40),
)
def test_each_message_comes_once(
    stages: list[list[bool]], contents: list[int], straddling: list[bool], reads: list[tuple[str, int]]
) -> None:
    """Also where messages cannot be told apart, wherever markers fall and whoever reads first."""
    server = Server()
    pace = iter(reads)

    def publish_some(with_ids: list[bool]) -> None:
        for with_id in with_ids:
            number = len(server.published)
            server.publish(message(number, contents[number], with_id=with_id))
            socket, many = next(pace, ("old", 1))
            server.read(socket, many)

    def catch_up(markers: int) -> None:
        while server.overlap.old.markers < markers or server.waiting["old"]:
            server.read("old", 3)
        while server.overlap.new.markers < markers:
            server.read("new", 3)

    publish_some(stages[0])
    server.subscribed["new"] = True
    publish_some(stages[1])
    first = len(server.published)
    server.mark([(message(first + n, 0, with_id=False), way) for n, way in enumerate(straddling)])
    publish_some(stages[2])
    server.mark()
    catch_up(2)
    agreed = server.overlap.agree()
    if len(set(straddling)) == 1:
        assert not agreed
    publish_some(stages[3])
    server.mark()
    catch_up(3)
    assert server.overlap.agree()
    server.subscribed["old"] = False
    publish_some(stages[4])
    server.overlap.release()
    publish_some(stages[5])
    while server.waiting["new"]:
        server.read("new", 2)
    assert Counter(map(_kind, server.taken)) == Counter(map(_kind, server.published))
    with_ids = [each for each in server.published if each.head]
    assert [each for each in server.taken if each.head] == with_ids


def _kind(each: RawMessage) -> tuple[bytes, bytes]:
    return each.head, each.data


def test_members_of_queue_groups_take_all_that_comes() -> None:
    """A message goes to one socket of the two, so nothing is a copy, however much alike."""
    taken: list[RawMessage] = []
    inlet = Inlet(1, "a", "group", lambda messages, _: taken.extend(messages), RawMessage, None)
    overlap = SocketOverlap(marked=False)
    same = message(0, 0, with_id=False)
    overlap.old(inlet, [same], 1)
    overlap.new(inlet, [same], 1)
    overlap.release()
    assert taken == [same, same]


def test_who_selects_is_a_group_alone_and_has_another_name_at_each_socket() -> None:
    taken: list[RawMessage] = []
    group = selecting_group("tag", Selector("n > 1"))
    inlet = Inlet(1, "a", group, lambda messages, _: taken.extend(messages), RawMessage, None)
    assert inlet.sub_line == f"SUB a {group} 1\r\n".encode()
    assert inlet.line_beside == f"SUB a {beside(group)} 1\r\n".encode()
    assert selector_in(beside(group)) == selector_in(group)
    assert (beside(group) == group, beside(beside(group)) == group) == (False, True)
    overlap = SocketOverlap(marked=False)
    overlap.old(inlet, [message(0, 0, with_id=True)], 1)
    overlap.new(inlet, [message(0, 0, with_id=True), message(1, 0, with_id=True)], 2)
    overlap.release()
    assert taken == [message(0, 0, with_id=True), message(1, 0, with_id=True)]


def test_what_is_held_is_made_anew_for_who_listens_by_then() -> None:
    overlap = SocketOverlap(marked=False)
    inlet = Inlet(1, "a", "", lambda messages, _: None, RawMessage, None)
    overlap.new(inlet, [message(0, 0, with_id=True)], 1)
    taken: list[str] = []
    inlet.form = lambda subject, data, head, reply, origin: f"{subject} {data.decode()}"
    inlet.sink = lambda messages, _: taken.extend(messages)
    overlap.release()
    assert taken == ["a 0"]
