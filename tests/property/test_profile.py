"""Whatever clients do, the profile knows the wishes that stand, and sums them up as one would by hand."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.control.load.smoothing import smoothed
from mangrove.control.offloading.problem import Audience
from mangrove.control.profile.profile import LoadProfile
from mangrove.model.agents.registration import ClientRole, Report, Traffic, Wish
from mangrove.model.balancing import Balancing
from mangrove.model.topics import TopicRules

CLIENTS = st.sampled_from(("c1", "c2", "c3"))
KEYS = st.sampled_from(("k1", "k2", "k3", "k4"))
SUBJECTS = st.sampled_from(("t", "u", "v"))
BROKERS = st.sampled_from(("e1", "e2", ""))
WINDOW = 3

STEPS = st.one_of(
    st.tuples(st.just("place"), CLIENTS, KEYS, SUBJECTS, BROKERS),
    st.tuples(st.just("move"), CLIENTS, KEYS, BROKERS),
    st.tuples(st.just("end"), CLIENTS, KEYS),
    st.tuples(st.just("leave"), CLIENTS),
    st.tuples(
        st.just("report"),
        CLIENTS,
        st.dictionaries(KEYS, st.tuples(st.integers(1, 1000), st.integers(0, 10**6))),
        st.integers(1, 5),
    ),
)


@dataclass
class ByHand:
    """A wish with every period since it began: simple, and slow."""

    subject: str
    broker: str
    periods: list[tuple[float, float]] = field(default_factory=list)
    carried: bool = False

    def rate(self) -> tuple[float, float]:
        if not self.carried:
            return 0.0, 0.0
        return (
            smoothed([each[0] for each in self.periods], WINDOW),
            smoothed([each[1] for each in self.periods], WINDOW),
        )


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_the_profile_is_what_one_would_reckon_by_hand(steps: list[tuple[object, ...]]) -> None:
    profile = LoadProfile(Balancing(window=WINDOW), TopicRules())
    wishes: dict[tuple[str, str], ByHand] = {}
    sequence = unknown = 0
    clients: set[str] = set()
    for step in steps:
        match step:
            case ("place", str(client), str(key), str(subject), str(broker)):
                wished = Wish(key=key, role=ClientRole.SUBSCRIBER, subject=subject)
                assert profile.place(client, wished, broker)
                clients.add(client)
                known = wishes.get((client, key))
                if known is None or known.subject != subject:
                    known = wishes[client, key] = ByHand(subject, broker)
                known.broker = broker
            case ("move", str(client), str(key), str(broker)):
                assert profile.moved(client, key, broker) == ((client, key) in wishes)
                if (client, key) in wishes:
                    wishes[client, key].broker = broker
            case ("end", str(client), str(key)):
                profile.end(client, key)
                wishes.pop((client, key), None)
            case ("leave", str(client)):
                profile.leave(client)
                clients.discard(client)
                wishes = {place: wish for place, wish in wishes.items() if place[0] != client}
            case ("report", str(client), dict(received), int(span)):
                sequence += 1
                told = {key: Traffic(*each) for key, each in received.items()}
                problem = profile.report(
                    Report(client=client, sequence=sequence, span_s=float(span), received=told)
                )
                assert problem == ("not registered" if client not in clients and told else "")
                if client not in clients:
                    unknown += bool(told)
                    continue
                unknown += sum((client, key) not in wishes for key in told)
                for (name, key), wish in wishes.items():
                    if name == client:
                        messages, size = received.get(key, (0, 0))
                        wish.carried = wish.carried or key in received
                        if wish.carried:
                            wish.periods += [(messages / span, size / span)] * span
    assert len(profile) == len(wishes)
    assert profile.refused.total() == unknown
    for (client, key), wish in wishes.items():
        rate = profile.rate(client, key)
        assert all(
            abs(one - other) < 1e-6 * (1 + other) for one, other in zip(rate, wish.rate(), strict=True)
        )
    for broker in ("e1", "e2"):
        here = {place: wish for place, wish in wishes.items() if wish.broker == broker}
        assert set(profile.topics(broker)) == {wish.subject for wish in here.values()}
        topics: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for place, wish in here.items():
            topics[wish.subject].append(place)
        carrying = {t for t, places in topics.items() if any(wishes[place].rate()[0] for place in places)}
        bundles = {b.topic: b for b in profile.subscribers(broker, lambda _: Audience.LOCAL)}
        assert set(bundles) == carrying
        for topic, bundle in bundles.items():
            rates = [wishes[place].rate() for place in topics[topic]]
            assert sorted((each.client, each.key) for each in bundle.members) == sorted(topics[topic])
            assert bundle.output == pytest.approx(sum(rate[1] for rate in rates))
            assert bundle.load.matching == pytest.approx(max(rate[0] for rate in rates))
