"""Who must not go on beside whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.agent.hosting.supervision import disagreement
from mangrove.agent.launcher import check_choice
from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.model.hosting.supervision import HostGreeting

greetings = st.builds(
    HostGreeting,
    host=st.sampled_from(["h1", "h2", "h3"]),
    digest=st.sampled_from(["one", "two"]),
    started_at=st.floats(0, 3, allow_nan=False),
)


@given(greetings, greetings)
def test_of_two_that_disagree_one_must_go(first: HostGreeting, second: HostGreeting) -> None:
    refused = [disagreement(first, second), disagreement(second, first)]
    if first.digest == second.digest:
        assert refused == ["", ""]
    elif (first.host, first.started_at) != (second.host, second.started_at):
        assert len([reason for reason in refused if reason]) == 1


def test_the_later_one_says_with_whom_it_disagrees() -> None:
    early = HostGreeting(host="h1", digest="aaaa", started_at=1.0)
    late = HostGreeting(host="h2", digest="bbbb", started_at=2.0)
    assert "host 'h1' runs by another federation file" in disagreement(late, early)
    assert disagreement(early, late) == ""


SITE = """
federation: f
domains:
  a: {{}}
  oslo:
    hosts: {{h1: {{address: x, brokers: [head]}}, h2: {{address: y}}}}
{further}
"""


@pytest.mark.parametrize(
    ("domain", "host", "problem"),
    [
        ("bergen", None, "has no domain 'bergen'"),
        ("oslo", "h3", "has no host 'h3'"),
        ("a", "h1", "has no host 'h1'"),
        (None, "h1", "a host is one of a domain"),
    ],
)
def test_what_is_not_there_is_not_run(domain: str | None, host: str | None, problem: str) -> None:
    federation = parse_federation(SITE.format(further=""), "f").require()
    with pytest.raises(InputError, match=problem):
        check_choice(federation, domain, host)


def test_files_agree_wherever_they_lie_and_differ_by_what_they_say() -> None:
    def digest(further: str) -> str:
        return parse_federation(SITE.format(further=further), "f").require().digest()

    assert digest("plans: {directory: here}") == digest("plans: {directory: there}")
    assert digest("plans: {policy: auto}") == digest("balancing: {period_s: 3}") == digest(""), (
        "hosts take over what agents alone need one after the other, while they run"
    )
    assert digest("queue_bytes: 70000") != digest("")
    assert digest("topics: [{match: x}]") != digest("")
