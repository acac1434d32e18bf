"""All kinds of things that happen at an agent, by name."""

from __future__ import annotations

from mangrove.control.events.congestion_happenings import CONGESTION
from mangrove.control.events.elastic_happenings import ELASTIC
from mangrove.control.events.failure_happenings import FAILURES
from mangrove.control.events.happenings import GENERAL
from mangrove.control.events.member_happenings import MEMBERS
from mangrove.control.events.plan_happenings import PLANS
from mangrove.control.events.session_happenings import SESSIONS
from mangrove.control.events.steering_happenings import STEERING

KINDS = GENERAL | SESSIONS | CONGESTION | PLANS | FAILURES | ELASTIC | MEMBERS | STEERING
