"""`report`: one HTML page with plots of what the other jobs found. No network is needed to read it."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mangrove.errors import InputError
from mangrove.pipelines.output import MARKER, output_directory

JOB = "report"
MAX_TOPICS = 60
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
h1, h2 { line-height: 1.2 } h2 { margin-top: 2.5rem; border-bottom: 1px solid #c9d6d3 }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .2rem .8rem; border-bottom: 1px solid #e3eae8 }
td.n { text-align: right; font-variant-numeric: tabular-nums } img { max-width: 100% } .none { color: #777 }
"""

Rows = list[dict[str, Any]]


def run(results: Path, output: Path) -> dict[str, Any]:
    """Find the jobs' outputs under `results` and write `report.html`."""
    found = find_results(results)
    if not found:
        raise InputError(
            f"{results} holds no output of a job",
            hint="run the jobs with outputs under one directory, e.g. out/profile, out/slo, then --input out",
        )
    sections = [section(found[name]) for name, section in SECTIONS.items() if name in found]
    missing = [name for name in SECTIONS if name not in found]
    page = _page(results, sections, missing)
    with output_directory(output, JOB) as directory:
        (directory / "report.html").write_text(page, encoding="utf-8")
    return {"page": str(output / "report.html"), "jobs": sorted(found), "missing": missing, "skipped": []}


def find_results(results: Path) -> dict[str, Path]:
    """Output directories by job, from the mark that each job leaves."""
    if not results.is_dir():
        raise InputError(f"{results} is not a directory")
    marks = [results / MARKER, *sorted(results.glob(f"*/{MARKER}"))]
    return {mark.read_text().strip(): mark.parent for mark in marks if mark.is_file()}


def _profile(directory: Path) -> str:
    topics = pq.read_table(directory / "topics.parquet").to_pylist()
    covariance = np.load(directory / "covariance.npy")
    summary = _summary(directory)
    order = sorted(range(len(topics)), key=lambda n: -topics[n]["mean_rate"])[:MAX_TOPICS]
    deviation = np.sqrt(np.diag(covariance))[order]
    safe = np.where(deviation > 0, deviation, 1.0)
    correlation = covariance[np.ix_(order, order)] / np.outer(safe, safe)

    def rates(axes: Any) -> None:
        mean = [topics[n]["mean_rate"] for n in order]
        axes.errorbar(range(len(order)), mean, yerr=deviation, fmt="o", ms=3, lw=0.8, color="#0b6e4f")
        axes.set(xlabel="topic, by rate", ylabel="messages/s (± deviation)", title="Rates at peak")

    def matrix(axes: Any) -> None:
        image = axes.imshow(correlation, vmin=-1, vmax=1, cmap="RdBu_r")
        axes.figure.colorbar(image, ax=axes)
        axes.set(title="Correlation of rates", xlabel="topic, by rate")

    peaks = "; ".join(f"{domain}: {', '.join(spans)}" for domain, spans in summary["peaks"].items())
    text = f"{summary['topics']} topics over {summary['windows']} windows. Peaks (UTC): {peaks}."
    columns = ["topic", "mean_rate", "variance", "burst_factor", "replication", "filters", "message_bytes"]
    return _section("Workload", text, [_plot(rates), _plot(matrix)], [topics[n] for n in order[:15]], columns)


def _slo(directory: Path) -> str:
    summary = _summary(directory)
    windows = pq.read_table(directory / "windows.parquet").to_pylist()

    def quality(axes: Any) -> None:
        for route in sorted({(w["domain"], w["topic"]) for w in windows}):
            own = [w for w in windows if (w["domain"], w["topic"]) == route]
            axes.plot(
                [w["start"] for w in own],
                [w["in_time_ratio"] for w in own],
                marker=".",
                label=" ".join(route),
            )
        axes.axhline(summary["target"], color="#b33", lw=0.8)
        axes.set(title="In time, by hour", ylabel="share of messages")
        if windows:
            axes.legend(fontsize=7)
        axes.figure.autofmt_xdate()

    columns = ["domain", "topic", "route", "delivered", "in_time_ratio", "budget_burn", "p50_ms", "p99_ms"]
    worst = _table(
        summary["worst_hours"], ["start", "domain", "topic", "in_time_ratio", "budget_burn", "p99_ms"]
    )
    odd = _table(
        summary["anomalies"][:30], ["start", "minutes", "kind", "domain", "subject", "value", "usual"]
    )
    extra = f"<h3>Worst hours</h3>{worst}<h3>Anomalies</h3>{odd}"
    text = f"Target: {summary['target']:.3%} in time."
    return _section("Service levels", text, [_plot(quality)], summary["routes"], columns) + extra


def _availability(directory: Path) -> str:
    rows = _summary(directory)["rows"]

    def bars(axes: Any) -> None:
        axes.barh([r["component"] for r in rows], [r["failure_probability"] for r in rows], color="#0b6e4f")
        axes.set(xlabel="probability of being down", title="Failure probability")

    columns = [
        "kind",
        "component",
        "observed_s",
        "failures",
        "failure_probability",
        "mean_repair_s",
        "mean_up_s",
    ]
    return _section("Availability", f"{len(rows)} components.", [_plot(bars)], rows, columns)


def _calibrate(directory: Path) -> str:
    models = _summary(directory)["models"]

    def capacity(axes: Any) -> None:
        copies = np.arange(1, 33)
        for model in models:
            times = model["t_rcv"] + copies * model["t_tx"]
            size = model["message_bytes"]
            axes.plot(
                copies, 1 / times, label=f"{model['broker_type']} {'all sizes' if size is None else size}"
            )
        axes.set(xlabel="copies of a message", ylabel="messages/s", title="Capacity", yscale="log")
        axes.legend(fontsize=7)

    columns = ["broker_type", "message_bytes", "runs", "t_rcv", "t_fltr", "t_tx", "relative_rms"]
    return _section("Broker model", "Seconds for each message.", [_plot(capacity)], models, columns)


def _cases(directory: Path) -> str:
    cases = json.loads((directory / "cases.json").read_text())["cases"]

    def joint(axes: Any) -> None:
        axes.plot([case["joint_ok"] for case in cases], ".", color="#0b6e4f")
        axes.set(xlabel="case", ylabel="probability that no broker is overloaded", title="Case base")

    rows = [
        {
            "kind": case["state"]["kind"],
            "failed": ", ".join(case["state"]["failed"]) or "-",
            "load": case["state"]["load"],
            "joint_ok": case["joint_ok"],
            "feasible": "yes" if case["feasible"] else "no",
        }
        for case in cases[:40]
    ]
    text = f"{len(cases)} states with a plan."
    return _section(
        "Case base", text, [_plot(joint)], rows, ["kind", "failed", "load", "joint_ok", "feasible"]
    )


SECTIONS: dict[str, Callable[[Path], str]] = {
    "profile": _profile,
    "slo": _slo,
    "availability": _availability,
    "calibrate": _calibrate,
    "cases": _cases,
}


def _summary(directory: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_text())
    return summary


def _plot(draw: Callable[[Any], None]) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="tight")
    draw(figure.subplots())
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110, metadata={"Software": None})
    return f'<img alt="plot" src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}">'


def _section(title: str, text: str, plots: list[str], rows: Rows, columns: list[str]) -> str:
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{''.join(plots)}{_table(rows, columns)}"


def _table(rows: Rows, columns: list[str]) -> str:
    if not rows:
        return '<p class="none">None.</p>'
    head = "".join(f"<th>{html.escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join("<tr>" + "".join(_cell(row[column]) for column in columns) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td class="n">{value:.4g}</td>'
    if isinstance(value, int):
        return f'<td class="n">{value}</td>'
    return f"<td>{html.escape('' if value is None else str(value))}</td>"


def _page(results: Path, sections: list[str], missing: list[str]) -> str:
    absent = f'<p class="none">Not run: {", ".join(missing)}.</p>' if missing else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mangrove report</title>'
        f"<style>{STYLE}</style></head><body><h1>Telemetry report</h1><p>{html.escape(results.name)}</p>"
        f"{absent}{''.join(sections)}</body></html>\n"
    )
