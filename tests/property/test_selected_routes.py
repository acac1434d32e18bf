"""Whatever subscribers come and go, messages go wherever somebody wants them, by one flow for each domain."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.flow_tables import flow_table

from mangrove.gateway.selecting.selected_flow import SelectedWay
from mangrove.gateway.selecting.selecting_subscribers import SelectingSubscribers
from mangrove.model.selectors.group_names import selecting_group, selector_in, told_group
from mangrove.model.selectors.selector import Selector
from mangrove.model.subjects import covers
from mangrove.model.topics import TopicRules
from mangrove.overlay.protocol.bodies import DISCARD

DOMAINS = ("a", "b", "c", "d")
PATTERNS = st.sampled_from(["x", "x.1", "x.2", "x.*", "x.>", ">"])
WHERE = st.sampled_from(["", "n > 1", "n <= 2", "n IS NULL", "n = 9 OR m = 'u'"])
SUBJECTS = st.sampled_from(["x", "x.1", "x.2.3"])
HEADERS = st.fixed_dictionaries(
    {}, optional={"n": st.sampled_from(["1", "2", "9", "?"]), "m": st.sampled_from(["u", "v"])}
)
CHANGES = st.lists(st.tuples(st.sampled_from(DOMAINS[1:]), PATTERNS, WHERE, st.booleans()), max_size=25)


@given(CHANGES, SUBJECTS, HEADERS)
def test_a_message_goes_where_somebody_wants_it_and_nowhere_else(
    changes: list[tuple[str, str, str, bool]], subject: str, headers: dict[str, str]
) -> None:
    table = flow_table(DOMAINS, TopicRules())
    wants: set[tuple[str, str, str]] = set()
    for domain, pattern, where, wanted in changes:
        group = selecting_group(domain, Selector(where)) if where else ""
        key = domain, pattern, group
        if wanted != (key in wants):
            (table.want if wanted else table.forget)(*key)
            (wants.add if wanted else wants.discard)(key)
    expected = {
        domain
        for domain, pattern, group in wants
        if covers(pattern, subject) and ((s := selector_in(group)) is None or s.wants(headers))
    }
    routes = table.routes_of(subject, lambda _: ())
    by_domain: Counter[str] = Counter()
    reached: set[str] = set()
    for route in routes:
        names = [name for place, name in enumerate(DOMAINS) if route.flow.destinations >> place & 1]
        by_domain.update(names)
        if SelectedWay(DISCARD, route.selectors, len(names)).takes(headers):
            reached.update(names)
    assert reached == expected
    assert all(count == 1 for count in by_domain.values()), "so what it gets keeps its order"
    assert table.subjects() == {pattern for _, pattern, _ in wants}
    assert table.wanted == len(wants)


LEGS = st.sampled_from(
    [selecting_group(tag, Selector(where)) for tag in ("1", "2") for where in ("n > 1", "n = 9")]
)
EVENTS = st.lists(st.tuples(PATTERNS, LEGS, st.booleans()) | st.none(), max_size=30)


@given(EVENTS, SUBJECTS)
def test_the_others_hear_of_whoever_is_there_and_messages_name_them(
    events: list[tuple[str, str, bool] | None], subject: str
) -> None:
    """None: the broker is lost. Then it tells anew who is there, and what it had told of does not count."""
    here = SelectingSubscribers("a")
    there: set[tuple[str, str]] = set()
    told: set[tuple[str, str]] = set()
    for event in events:
        if event is None:
            here.lost()
            there.clear()
            told.clear()
            continue
        pattern, leg, wanted = event
        (there.add if wanted else there.discard)((pattern, leg))
        change = here.change(pattern, leg, wanted)
        assert change is not None
        assert change.changed == (((pattern, change.group) in told) != change.wanted)
        (told.add if change.wanted else told.discard)((pattern, change.group))
        assert told == {(each, told_group("a", leg)) for each, leg in there}
        assert {leg for each, leg in there if covers(each, subject)} <= set(here.named(subject))
    here.lost()
    here.lost()
    assert (len(here), here.named(subject)) == (0, ()), "who does not come back is forgotten"
