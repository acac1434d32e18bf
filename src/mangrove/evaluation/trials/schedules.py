"""Seeded schedules of faults as trials: on gateways, on one agent's sessions, on several agents."""

from __future__ import annotations

from enum import StrEnum

from mangrove.evaluation.trials.experiment import MAIN, Experiment
from mangrove.simulation.agents import run as sessions
from mangrove.simulation.agents.run import SessionsResult
from mangrove.simulation.agents.several import run as leaders
from mangrove.simulation.agents.several.run import SeveralResult
from mangrove.simulation.schedules.run import (
    ScheduleResult,
    run_changing_schedule,
    run_lying_schedule,
    run_schedule,
)
from mangrove.simulation.schedules.schedule import network_number


class Mode(StrEnum):
    """What else happens while links and gateways fail."""

    PLAIN = "plain"
    LYING = "lying"
    CHANGING = "changing"


_PLAYERS = {
    Mode.PLAIN: run_schedule,
    Mode.LYING: run_lying_schedule,
    Mode.CHANGING: run_changing_schedule,
}


def play_schedule(mode: Mode, seed: int) -> ScheduleResult:
    """A schedule of failures of links and gateways, with a liar among them, or while contracts change."""
    return _PLAYERS[mode](seed)


def play_sessions(_: None, seed: int) -> SessionsResult:
    """A schedule of bursts and faults around the sessions of an agent."""
    return sessions.run_schedule(seed)


def play_leaders(_: None, seed: int) -> SeveralResult:
    """A schedule of faults among several agents of a domain."""
    return leaders.run_schedule(seed)


def schedules_trials(*, lying: bool = False, changing: bool = False) -> Experiment[Mode, ScheduleResult]:
    """Schedules on one network are played in a row, since to start it costs most."""
    mode = Mode.LYING if lying else Mode.CHANGING if changing else Mode.PLAIN
    return Experiment("schedules", play_schedule, {MAIN: mode}, ScheduleResult, network_number)


def sessions_trials() -> Experiment[None, SessionsResult]:
    """Offload sessions under faults."""
    return Experiment("sessions", play_sessions, {MAIN: None}, SessionsResult)


def leaders_trials() -> Experiment[None, SeveralResult]:
    """Several agents under faults."""
    return Experiment("leaders", play_leaders, {MAIN: None}, SeveralResult)
