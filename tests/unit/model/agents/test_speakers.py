from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.agents.names import (
    agent_status_subject,
    client_subject,
    operations_subject,
    register_subject,
    report_subject,
)
from mangrove.model.agents.speakers import (
    client_may_hear,
    client_may_publish,
    said_by,
    speaker_of,
    told_to,
    unspoken,
)
from mangrove.model.questions.audience import gateway_audience_subject, wanted_subject
from mangrove.model.shared_names import gateway_asks_subject, gateway_interest_subject
from mangrove.model.subjects import covers

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)


@given(NAMES, NAMES)
def test_all_that_a_client_says_and_hears_is_under_its_own_name(user: str, domain: str) -> None:
    say, hear = client_may_publish(user, domain), client_may_hear(user, domain)
    for subject in (register_subject, report_subject, gateway_asks_subject, gateway_interest_subject):
        assert any(covers(each, subject(domain, user)) for each in say)
        assert speaker_of(subject(domain, user)) == user
        assert unspoken(subject(domain, user)) == subject(domain)
        assert speaker_of(subject(domain)) == ""
    assert any(covers(each, gateway_audience_subject(domain, user)) for each in say)
    for heard in (client_subject(domain, "ab12", user), wanted_subject(domain, "xyz", user)):
        assert any(covers(each, heard) for each in hear)


@given(NAMES, NAMES, NAMES)
def test_nobody_may_say_or_hear_what_is_anothers(user: str, other: str, domain: str) -> None:
    for subject in (
        operations_subject(domain),
        agent_status_subject(domain),
        told_to(user, domain, "client.x"),
        *(() if user == other else (said_by(other, domain, "agent.register"),)),
    ):
        assert not any(covers(each, subject) for each in client_may_publish(user, domain))
    for subject in (
        said_by(user, domain, "agent.register"),
        f"mangrove.{domain}.>",
        f"mangrove.{domain}.members.x",
        *(() if user == other else (told_to(other, domain, "client.x"),)),
    ):
        assert not any(covers(each, subject) for each in client_may_hear(user, domain))
