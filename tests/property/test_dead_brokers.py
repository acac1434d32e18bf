"""Whatever brokers and clients do, the directory names no dead broker for longer than the bound."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.mortal_domain import BROKERS, MortalDomain, domain

from mangrove.control.failures.department import BOUND_S
from mangrove.control.failures.detector import PROBE_S

TOPICS = ("a", "b")
MORTAL = ("oslo-edge1", "oslo-edge2")
"""Few enough that one often dies again, or is named while it is dead."""
STEPS = st.sampled_from((1, 3, 12))
Happening = st.one_of(
    st.tuples(st.just("answers"), st.sampled_from(MORTAL), st.sampled_from("+-x"), STEPS),
    st.tuples(st.just("suspects"), st.sampled_from(MORTAL), st.sampled_from(("c1", "c2")), STEPS),
    st.tuples(st.just("subscribes"), st.sampled_from(("", *MORTAL)), st.sampled_from(TOPICS), STEPS),
)


def check(made: MortalDomain, dead_since: dict[str, float]) -> None:
    """The promise; while nothing lives, there is nothing else to name."""
    for broker, answer in made.answers.items():
        if answer == "+":
            dead_since.pop(broker, None)
        else:
            dead_since.setdefault(broker, made.now)
    status = made.agent.status(made.now).failures
    unreliable = {each.broker for each in status.brokers if each.health in ("failed", "returning")}
    if unreliable.issuperset(BROKERS):
        return
    for topic in TOPICS:
        for edge in made.edges(topic):
            dead_s = made.now - dead_since.get(edge, made.now)
            assert dead_s <= BOUND_S + PROBE_S, f"{topic} is at {edge}, dead for {dead_s:.1f} s"


@settings(max_examples=60)
@given(st.lists(Happening, min_size=4, max_size=12))
def test_no_record_names_a_dead_broker_for_long(happenings: list[tuple[str, str, str, int]]) -> None:
    made = domain()
    for topic in TOPICS:
        made.subscribe(topic)
    made.subscribe("z", client="c2")
    dead_since: dict[str, float] = {}
    for what, broker, more, steps in (*happenings, ("ends", "", "", round(2 * BOUND_S / PROBE_S))):
        match what:
            case "answers":
                made.answers[broker] = more
            case "suspects":
                made.suspect(broker, more)
            case "subscribes":
                made.subscribe(more, broker)
            case _:
                pass
        for _ in range(steps):
            made.run(PROBE_S)
            check(made, dead_since)
