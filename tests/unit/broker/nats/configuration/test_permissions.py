"""Who may say and hear what at brokers: nobody can speak for a broker, a gateway or another client."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mangrove.broker.nats.configuration.data_permissions import (
    data_users,
    key_client_rights,
    password_client_rights,
    system_users,
)
from mangrove.broker.nats.configuration.management_permissions import management_users
from mangrove.broker.security import BrokerSecurity, Rights, Subjects
from mangrove.model.agents.names import operations_subject, register_subject, supervisor_subject
from mangrove.model.security.users import USER_ROLES, User
from mangrove.model.subjects import covers
from mangrove.store.buckets import OFFERS, bucket_name

CLIENTS = ("alice", "bob")
USERS = (
    *(User(name=name, role=role.value, nkey=f"U{name.upper()}") for name, role in USER_ROLES.items()),
    *(
        User(name=name, role="client", client=True, nkey=f"U{name.upper()}", password_hash="$2b$05$x")
        for name in CLIENTS
    ),
)
SECURITY = BrokerSecurity(
    federation="one",
    domain="here",
    domains=("here", "there"),
    certificate=Path("/k/b.pem"),
    key=Path("/k/b.key"),
    authorities=Path("/k/trusted.pem"),
    users=USERS,
)


ALICE = next(user for user in USERS if user.name == "alice")


def leaving(left: Rights) -> BrokerSecurity:
    """The same, where rules leave this to alice."""
    return replace(SECURITY, rights={"alice": left})


def may(subjects: Subjects, subject: str) -> bool:
    """As nats-server decides: what is denied wins."""
    allowed = subjects.allow is None or any(covers(each, subject) for each in subjects.allow)
    return allowed and not any(covers(each, subject) for each in subjects.deny)


@pytest.mark.parametrize("rights_of", [key_client_rights, password_client_rights])
@pytest.mark.parametrize("left", [Rights(), Rights(Subjects(("a.>",)), Subjects(("a.>",)))])
class TestAClientAtADataBroker:
    @pytest.mark.parametrize(
        "subject",
        [
            "$SYS.REQ.USER.INFO",
            "$JS.API.STREAM.DELETE.$MQTT_msgs",
            "$JS.here.API.STREAM.NAMES",
            "$MQTT.msgs.a.b",
            "$MQTT.rmsgs.a.b",
            "$MGV.here.in",
            "_MGR.@stored",
            "_MGL",
            "$LDS.abc",
        ],
    )
    def test_does_not_speak_for_brokers_and_gateways(
        self, rights_of: type, left: Rights, subject: str
    ) -> None:
        assert not may(rights_of(ALICE, leaving(left)).publish, subject)

    @pytest.mark.parametrize(
        "subject",
        [
            "$SYS.>",
            "$LDS.>",
            "$JS.>",
            "$MQTT.sess.>",
            "$MQTT.rmsgs.>",
            "_MGR._WHERE",
            "_MGR.@stored",
            "_MGR.*",
            "_MGR.here._READY",
            "_MGR.there._INBOX.x",
            "$MGV.here.out",
        ],
    )
    def test_does_not_hear_what_is_for_them(self, rights_of: type, left: Rights, subject: str) -> None:
        assert not may(rights_of(ALICE, leaving(left)).subscribe, subject)

    @pytest.mark.parametrize(
        "subject",
        [
            "a.b",
            "_MGR._WHERE",
            "_MGR.here._READY",
            "_MGR.there._INBOX.abc.1",
            "_MGM.0123",
            "_MGR._MIRROR._AGAIN",
            "_MGR._MIRROR._NEWEST",
            "_INBOX.alice.abc",
        ],
    )
    def test_says_what_the_sdk_says(self, rights_of: type, left: Rights, subject: str) -> None:
        assert may(rights_of(ALICE, leaving(left)).publish, subject)

    @pytest.mark.parametrize(
        "subject", ["a.b", "_MGM.0123", "_MGR._MIRROR._AGAIN", "_MGR._MIRROR._NEWEST", "_INBOX.alice.*"]
    )
    def test_hears_what_the_sdk_hears(self, rights_of: type, left: Rights, subject: str) -> None:
        assert may(rights_of(ALICE, leaving(left)).subscribe, subject)


TOKENS = st.sampled_from(["a", "b", "secret", "x"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.builds(
    lambda tokens, end: ".".join([*tokens, *end]),
    st.lists(st.sampled_from(["a", "b", "secret", "*"]), min_size=1, max_size=3),
    st.sampled_from([(), (">",)]),
)
LISTS = st.builds(
    Subjects, st.none() | st.lists(PATTERNS, max_size=3).map(tuple), st.lists(PATTERNS, max_size=3).map(tuple)
)


@given(left=st.builds(Rights, LISTS, LISTS), subject=SUBJECTS)
def test_rules_about_subjects_of_applications_stay_as_they_are(left: Rights, subject: str) -> None:
    for rights in (key_client_rights(ALICE, leaving(left)), password_client_rights(ALICE, leaving(left))):
        assert may(rights.publish, subject) == may(left.publish, subject)
        assert may(rights.subscribe, subject) == may(left.subscribe, subject)


@given(left=st.builds(Rights, LISTS, LISTS), subject=SUBJECTS)
def test_what_is_stored_for_mqtt_is_no_way_around_what_is_denied(left: Rights, subject: str) -> None:
    rights = password_client_rights(ALICE, leaving(left))
    if not may(Subjects(None, left.subscribe.deny), subject):
        assert not may(rights.subscribe, f"$MQTT.msgs.{subject}")


def test_where_not_everything_is_allowed_nobody_hears_answers_to_others() -> None:
    few = Rights(Subjects(("a.>",)), Subjects(("a.>",)))
    for rights_of in (key_client_rights, password_client_rights):
        heard = rights_of(ALICE, leaving(few)).subscribe
        assert may(heard, "_INBOX.alice.x")
        assert not may(heard, "_INBOX.bob.x")
        assert not may(heard, "_INBOX.>")


def connections(lines: list[str], nkey: str) -> str:
    (found,) = [line for line in lines if f'nkey: "{nkey}"' in line]
    match = re.search(r"allowed_connection_types: (\[[^\]]*\])", found)
    assert match is not None
    return match[1]


def test_nobody_but_edges_and_gateways_comes_as_a_leaf_node() -> None:
    lines = list(data_users(SECURITY))
    assert connections(lines, "UEDGE") == connections(lines, "UGATEWAY") == '[ "LEAFNODE" ]'
    assert sum("LEAFNODE" in line for line in lines) == 2


def test_a_client_comes_by_its_key_or_by_its_password() -> None:
    lines = list(data_users(SECURITY))
    assert connections(lines, "UALICE") == '[ "STANDARD" ]'
    (by_password,) = [line for line in lines if 'user: "alice"' in line]
    assert '[ "STANDARD", "MQTT" ]' in by_password
    assert 'password: "$2b$05$x"' in by_password


def test_only_agents_and_hosts_are_in_the_system_account() -> None:
    assert [line.split('"')[1] for line in system_users(SECURITY)] == ["UAGENT", "UHOST"]
    assert not any('"UAGENT"' in line or '"UHOST"' in line for line in data_users(SECURITY))


def test_a_key_that_is_being_replaced_is_good_beside_the_new_one() -> None:
    replaced = User(name="edge", role="broker", nkey="UNEW", previous_nkey="UOLD")
    security = BrokerSecurity(
        federation="one",
        domain="here",
        domains=("here",),
        certificate=Path("/c"),
        key=Path("/k"),
        authorities=Path("/a"),
        users=(replaced,),
    )
    assert [line.split('"')[1] for line in data_users(security)] == ["UNEW", "UOLD"]


def lists(line: str) -> tuple[list[str], list[str]]:
    found = re.findall(r"(publish|subscribe): \{ allow: \[ ([^\]]*) \]", line)
    said, heard = ([each.strip('"') for each in text.split(", ")] for _, text in found)
    return said, heard


class TestAManagementBroker:
    @staticmethod
    def of(name: str) -> tuple[list[str], list[str]]:
        nkey = f'nkey: "U{name.upper()}"'
        (line,) = [line for line in management_users(SECURITY) if nkey in line]
        return lists(line)

    def test_a_client_speaks_and_hears_under_its_own_name(self) -> None:
        said, heard = self.of("alice")
        assert may(Subjects(tuple(said)), "mangrove.here.from.alice.agent.register")
        assert may(Subjects(tuple(heard)), "mangrove.here.to.alice.client.abc")
        assert may(Subjects(tuple(heard)), "_INBOX.alice.x")
        for subject in (
            "mangrove.here.from.bob.agent.register",
            register_subject("here"),
            operations_subject("here"),
            supervisor_subject("here", "h1"),
            "$JS.API.STREAM.DELETE.KV_directory",
            "$KV.mangrove_directory.x",
            "_INBOX.bob.x",
        ):
            assert not may(Subjects(tuple(said)), subject)
            assert not may(Subjects(tuple(heard)), subject)
        assert not may(Subjects(tuple(heard)), "mangrove.here.to.bob.client.abc")

    def test_only_agents_touch_what_is_stored(self) -> None:
        for name in ("gateway", "host", "operator", "alice"):
            said, heard = self.of(name)
            for subject in ("$KV.mangrove-directory.x", "$JS.API.STREAM.INFO.KV_mangrove-directory"):
                assert not may(Subjects(tuple(said)), subject)
                assert not may(Subjects(tuple(heard)), subject)

    def test_operators_leave_plans_there(self) -> None:
        said, _ = self.of("operator")
        assert may(Subjects(tuple(said)), f"$KV.{bucket_name(OFFERS)}.a-plan")

    def test_everybody_hears_its_own_answers_alone(self) -> None:
        for name in ("agent", "gateway", "host", "operator", "alice"):
            _, heard = self.of(name)
            assert may(Subjects(tuple(heard)), f"_INBOX.{name}.1")
            assert not may(Subjects(tuple(heard)), "_INBOX.bob.1")

    def test_edges_probes_and_recorders_have_no_business_there(self) -> None:
        rendered = "".join(management_users(SECURITY))
        assert not re.search("UEDGE|UPROBE|URECORDER", rendered)
