"""What each job's output looks like on the page. A job without a section is shown by its summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mangrove.pipelines.report import history, levels, matrix
from mangrove.pipelines.report.charts import Bar, columns, lines, rows
from mangrove.pipelines.report.page import Section, figure, number, table, text
from mangrove.pipelines.report.summary import read_summary

MAX_TOPICS = 400
MAX_BARS = 120
MAX_GROUPS = 12
MAX_CURVES = 5


def workload(directory: Path) -> Section:
    """`profile`: rates at peak, and which topics move together."""
    topics = pq.read_table(directory / "topics.parquet").to_pylist()
    covariance = np.load(directory / "covariance.npy", mmap_mode="r")
    summary = read_summary(directory)
    busiest = sorted(range(len(topics)), key=lambda n: -topics[n]["mean_rate"])
    shown = busiest[:MAX_TOPICS]
    names = [topics[n]["topic"] for n in shown]
    own = np.asarray(covariance[np.ix_(shown, shown)], dtype=np.float64)
    correlation = matrix.correlations(own)
    order, groups = matrix.by_cluster(correlation)
    bars = [
        Bar(
            topics[n]["topic"],
            topics[n]["mean_rate"],
            f"{topics[n]['topic']}\n{number(topics[n]['mean_rate'])} ± "
            f"{number(topics[n]['variance'] ** 0.5)} messages/s",
            spread=topics[n]["variance"] ** 0.5,
        )
        for n in busiest[:MAX_BARS]
    ]
    together = [
        {
            "group": place + 1,
            "topics": len(members),
            "messages_per_second": sum(topics[shown[n]]["mean_rate"] for n in members),
            "members": ", ".join(names[n] for n in members[:8]) + (" …" if len(members) > 8 else ""),
        }
        for place, members in enumerate(groups)
    ]
    peaks = "; ".join(f"{domain}: {', '.join(spans)}" for domain, spans in summary["peaks"].items())
    left_out = f" The picture shows the {len(shown)} busiest." if len(shown) < len(topics) else ""
    body = (
        f"<p>{text(summary['topics'])} topics over {summary['windows']:,} windows of "
        f"{summary.get('window_s', 1)} s. Peaks (UTC): {text(peaks)}.</p>"
        + figure(
            columns(bars, "messages/s"), "Rates at peak, busiest first, ± one deviation; names on hover."
        )
        + "<h3>Which topics move together</h3>"
        + figure(
            matrix.picture(f"correlation-{directory.resolve().name}", names, correlation, order),
            "Correlation of rates, topics ordered by cluster: red together, blue against each other; names "
            f"on hover.{left_out}",
        )
        + table(together[:MAX_GROUPS], ["group", "topics", "messages_per_second", "members"])
        + "<h3>Busiest topics</h3>"
        + table(
            [topics[n] for n in busiest[:15]],
            ["topic", "mean_rate", "variance", "burst_factor", "replication", "filters", "message_bytes"],
        )
    )
    return Section("Workload", body)


def availability(directory: Path) -> Section:
    """`availability`: how often each component is down."""
    found = read_summary(directory)["rows"]
    worst = sorted(found, key=lambda row: -row["failure_probability"])
    bars = [
        Bar(
            row["component"],
            100 * row["failure_probability"],
            f"{row['kind']} {row['component']}\ndown {row['failure_probability']:.4%} of the time, "
            f"{row['failures']} failures",
            "main" if row["failure_probability"] < 0.01 else "low",
        )
        for row in worst[:40]
    ]
    names = [
        "kind",
        "component",
        "observed_s",
        "failures",
        "failure_probability",
        "mean_repair_s",
        "mean_up_s",
    ]
    body = (
        f"<p>{len(found)} components; most often down first.</p>"
        + figure(rows(bars, " %"), "Probability of being down; red from 1 % on.")
        + table(worst, names)
    )
    return Section("Availability", body)


def broker_model(directory: Path) -> Section:
    """`calibrate`: what a broker can carry."""
    models = read_summary(directory)["models"]
    series = []
    for model in models:
        size = "all sizes" if model["message_bytes"] is None else f"{model['message_bytes']} bytes"
        curve = [(float(n), 1.0 / max(model["t_rcv"] + n * model["t_tx"], 1e-12)) for n in range(1, 33)]
        series.append((f"{model['broker_type']}, {size}", curve))
    names = ["broker_type", "message_bytes", "runs", "t_rcv", "t_fltr", "t_tx", "relative_rms"]
    drawing = lines(series, "copies of a message", "messages/s", logarithmic=True)
    body = (
        "<p>Seconds for each message.</p>"
        + figure(drawing, "Capacity by copies of a message, without filters; names on hover.")
        + table(models, names)
    )
    return Section("Broker model", body)


def case_base(directory: Path) -> Section:
    """`cases`: the plans for failures."""
    cases = json.loads((directory / "cases.json").read_text())["cases"]
    found = [
        {
            "kind": case["state"]["kind"],
            "failed": ", ".join(case["state"]["failed"]) or "-",
            "load": case["state"]["load"],
            "overload_probability": 1.0 - case["joint_ok"],
            "feasible": case["feasible"],
        }
        for case in cases
    ]
    found.sort(key=lambda row: -row["overload_probability"])
    bars = [
        Bar(
            str(row["failed"]),
            float(row["overload_probability"]),
            f"{row['kind']}, failed: {row['failed']}, load {number(row['load'])}\n"
            f"some broker overloaded with probability {number(row['overload_probability'])}",
            "main" if row["feasible"] else "low",
        )
        for row in found[:MAX_BARS]
    ]
    body = (
        f"<p>{len(cases)} states with a plan.</p>"
        + figure(
            columns(bars, "probability"), "Probability that some broker is overloaded, worst state first."
        )
        + table(found, ["kind", "failed", "load", "overload_probability", "feasible"])
    )
    return Section("Case base", body)


def coming_load(directory: Path) -> Section:
    """`load`: the coming day by hour, and what methods would have done so far."""
    summary = read_summary(directory)
    brokers = json.loads((directory / "forecast.json").read_text())["brokers"]
    shown = sorted((each for each in brokers if each["load"]), key=lambda each: -max(each["load"]))[
        :MAX_CURVES
    ]
    series = [
        (
            f"{each['broker']}, at most {max(each['load']):.2f}",
            [(float(hour), share) for hour, share in enumerate(each["load"])],
        )
        for each in shown
    ]
    heads = ["domain", "broker", "worst_load", "error", "naive_error", "season_hours", "history_hours"]
    methods = ["method", "started_by", "would_move", "nobody_takes", "brokers"]
    body = (
        f"<p>{summary['overload_s']:,} seconds in overload.</p>"
        + figure(
            lines(series, "hours from now", "share of capacity"),
            "Load of the coming day, the most loaded brokers.",
        )
        + table(sorted(summary["forecasts"], key=lambda row: -(row["worst_load"] or 0.0)), heads)
        + "<h3>What methods would have moved</h3>"
        + table(summary["methods"], methods)
    )
    if done := summary.get("done"):
        body += (
            f"<p>{done['sessions']:,} sessions did take place, {done['without_a_move']:,} without a move; "
            f"{done['moved']:,} subscriptions were moved.</p>"
        )
    return Section("Load", body)


def any_job(job: str) -> Callable[[Path], Section]:
    """A job's summary as it is: figures, then its tables."""

    def section(directory: Path) -> Section:
        summary = read_summary(directory)
        plain = [
            {"figure": name.replace("_", " "), "value": value}
            for name, value in summary.items()
            if isinstance(value, (int, float, str)) and value != ""
        ]
        body = table(plain, ["figure", "value"]) if plain else ""
        for name, value in summary.items():
            if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
                heads = [key for key, each in value[0].items() if not isinstance(each, (list, dict))]
                body += f"<h3>{text(name.replace('_', ' ').capitalize())}</h3>{table(value, heads, limit=20)}"
        return Section(job.replace("_", " ").capitalize(), body or '<p class="soft">No summary.</p>')

    return section


def run_steps(run: Mapping[str, Any]) -> Section:
    """The steps of `pipeline run`."""
    mark = {"done": "good", "unchanged": "good"}
    body = "".join(
        f"<tr><td>{text(step['step'])}</td><td>{text(step['job'])}</td>"
        f'<td class="{mark.get(step["outcome"], "bad")}">{text(step["outcome"])}</td>'
        f'<td class="n">{step["seconds"]:.1f}</td><td class="n">{step["tries"]}</td>'
        f"<td>{text(step['message'])}</td></tr>"
        for step in run["steps"]
    )
    head = "<th>step<th>job<th>outcome<th class=n>seconds<th class=n>tries<th>"
    return Section("Run", f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>')


# Shown where there are results; nobody misses them.
MORE: dict[str, Callable[[Path], Section]] = {"risk": history.risk, "utility": history.utility}
SECTIONS: dict[str, Callable[[Path], Section]] = {
    "profile": workload,
    "slo": levels.service_levels,
    "availability": availability,
    "calibrate": broker_model,
    "cases": case_base,
    "load": coming_load,
}
