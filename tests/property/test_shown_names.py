"""Names on pages: whatever they hold, they are short, printable and told apart."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.federation import Domain, Federation
from mangrove.model.status import Drop, FederationStatus
from mangrove.model.topics import Contract, TopicRules
from mangrove.monitor.told_event import ToldEvent
from mangrove.monitor.view.delays import DelayHistory
from mangrove.monitor.view.network import network
from mangrove.monitor.view.sight import ContractNames, Sight
from mangrove.monitor.view.story import story
from mangrove.monitor.view.topics import TopicTable
from mangrove.monitor.view.wording import MAX_NAME, MAX_SENTENCE, name_key, sentence
from mangrove.overlay.events.happenings import LinkFailed
from mangrove.simulation.statuses import invented_federation, invented_status

names = st.text(min_size=1, max_size=200) | st.sampled_from(
    ("<script>alert(1)</script>", "x" * 1_000_000, "\x00\x1b[2J", "a.b</td>", "\ud800")
)


@given(st.lists(names, unique=True, max_size=6))
def test_keys_are_short_printable_and_different(found: list[str]) -> None:
    keys = [name_key(name) for name in found]
    assert len(set(keys)) == len(found)
    assert all(len(key) <= MAX_NAME and key.isprintable() for key in keys)


@given(names)
def test_sentences_are_one_bounded_line(text: str) -> None:
    assert len(sentence(text)) <= MAX_SENTENCE
    assert sentence(text).isprintable()


@settings(max_examples=20)
@given(names)
def test_pages_stay_small_whatever_a_topic_is_called(name: str) -> None:
    base = invented_federation(3, 3, 2)
    federation = msgspec.structs.replace(
        base, topics=TopicRules((*base.topics.contracts, Contract(match=name)))
    )
    status = invented_status(base, tick=1)
    gateway = status.domains[0].gateway
    assert gateway is not None
    told = msgspec.structs.replace(
        gateway,
        drops=(Drop(topic=name, reason=name, count=1),),
        ways=tuple(msgspec.structs.replace(way, topic=name) for way in gateway.ways),
    )
    domains = (msgspec.structs.replace(status.domains[0], gateway=told), *status.domains[1:])
    seen = Sight(federation, FederationStatus(federation="f", domains=domains, warnings=(name,)), at=1.0)
    table = TopicTable(seen, DelayHistory())
    page = table.topic(name_key(name))
    assert page is not None
    event = ToldEvent(
        id="site00-1",
        at=1.0,
        cause=None,
        happening=LinkFailed(peer=name, reason=name),
        domain="site00",
        by_agent=False,
    )
    for view in (network(seen), table.view(), page, story([event])):
        assert len(msgspec.json.encode(view)) < 20_000


@given(st.data())
def test_the_contract_of_a_topic_is_found_as_the_federation_finds_it(data: st.DataObject) -> None:
    tokens = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3).map(".".join)
    patterns = data.draw(st.lists(tokens | st.just("a.>") | st.just(">"), unique=True, max_size=5))
    rules = TopicRules(tuple(Contract(match=each) for each in patterns))
    topic = data.draw(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3).map(".".join))
    place = rules.index_of(topic)
    expected = rules.contracts[place].match if place < len(patterns) else "(no contract)"
    assert ContractNames(rules).of(topic) == expected


def test_sites_without_a_place_have_none() -> None:
    federation = Federation(name="f", domains={"a": Domain(name="a", base_port=1)})
    found = network(Sight(federation, FederationStatus(federation="f", domains=()), at=1.0))
    assert found.sites[0].place is None
