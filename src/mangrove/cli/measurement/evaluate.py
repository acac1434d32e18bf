"""`mangrove evaluate NAME`: repeat a published experiment through the production code."""

from __future__ import annotations

import typer

from mangrove.cli.measurement import budgets as evaluate_budgets
from mangrove.cli.measurement import disasters as evaluate_disasters
from mangrove.cli.measurement import drd as evaluate_drd
from mangrove.cli.measurement import failover as evaluate_failover
from mangrove.cli.measurement import fdcc as evaluate_fdcc
from mangrove.cli.measurement import lookup as evaluate_lookup
from mangrove.cli.measurement import planning as evaluate_planning
from mangrove.cli.measurement import resilience as evaluate_resilience
from mangrove.cli.measurement import routing as evaluate_routing
from mangrove.cli.measurement import scenarios as evaluate_scenarios
from mangrove.cli.measurement.placement import steering as evaluate_steering
from mangrove.cli.measurement.schedules import leaders as evaluate_leaders
from mangrove.cli.measurement.schedules import sessions as evaluate_sessions

app = typer.Typer(help="Repeat the published experiments and compare.", no_args_is_help=True)
app.command("gap")(evaluate_routing.gap)
app.command("backbones")(evaluate_disasters.backbones)
app.command("disasters")(evaluate_disasters.disasters)
app.command("tables")(evaluate_routing.tables)
app.command("lookup")(evaluate_lookup.lookup)
app.command("failover")(evaluate_failover.failover)
app.command("six-nodes")(evaluate_scenarios.six_nodes)
app.command("harmony")(evaluate_scenarios.harmony)
app.command("schedules")(evaluate_failover.schedules)
app.command("sessions")(evaluate_sessions.sessions)
app.command("leaders")(evaluate_leaders.leaders)
app.command("resilience")(evaluate_resilience.resilience)
app.command("false-alarms")(evaluate_failover.false_alarms)
app.command("budgets")(evaluate_budgets.budgets)
app.command("allocation")(evaluate_planning.allocation)
app.command("heavy-tails")(evaluate_planning.heavy_tails)
app.command("six-items")(evaluate_planning.six_items)
app.command("broker-costs")(evaluate_planning.broker_costs)
app.command("drd")(evaluate_drd.drd)
app.command("steering")(evaluate_steering.steering)
app.command("fdcc")(evaluate_fdcc.fdcc)
