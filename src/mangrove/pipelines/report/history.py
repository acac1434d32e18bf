"""A plan against history, and topics that nobody wants, on the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mangrove.pipelines.report.charts import Bar, rows
from mangrove.pipelines.report.page import Section, figure, number, table
from mangrove.pipelines.report.summary import read_summary

MAX_BROKERS = 20
MAX_TOPICS = 30


def risk(directory: Path) -> Section:
    """`risk`: predicted and observed probability of overload of each broker."""
    summary = read_summary(directory)
    worst = sorted(summary["brokers"], key=lambda row: -_share(row["observed"]))
    bars = []
    for row in worst[:MAX_BROKERS]:
        observed = row["observed"]
        interval = f"95 %: {number(observed['low'])} to {number(observed['high'])}"
        bars += [
            _bar(f"{row['broker']}, predicted", row["predicted"], "by the normal model", "other"),
            _bar(
                f"{row['broker']}, observed",
                _share(observed),
                f"in {row['overloaded_windows']:,} of {row['windows']:,} windows; {interval}",
                "low" if row["verdict"] == "too low" else "main",
            ),
        ]
        if row["tail"] is not None:
            bars.append(_bar(f"{row['broker']}, tail", _share(row["tail"]), "by its tail", "main"))
    found = [
        {
            "broker": row["broker"],
            "capacity": row["limit_msg_s"],
            "largest load": row["most_msg_s"],
            "predicted": row["predicted"],
            "observed": _share(row["observed"]),
            "tail": None if row["tail"] is None else _share(row["tail"]),
            "prediction": row["verdict"],
            "because of": ", ".join(f"{each['item']} {each['share']:.0%}" for each in row["blamed"]),
        }
        for row in worst
    ]
    misjudged = [
        {"item": row["item"], "broker": row["broker"], "observed": _share(row["observed"])}
        | {"expected": row["predicted"], "largest": row["most_msg_s"]}
        for row in summary["misjudged_items"]
    ]
    low = len(summary["misjudged_brokers"])
    body = (
        f"<p>{summary['windows']:,} windows of {summary['window_s']} s at peak. The normal model promises "
        f"too much for <b>{low}</b> of {len(worst)} brokers and {len(misjudged)} of {summary['items']} "
        "items.</p>"
        + figure(
            rows(bars, " %"),
            "Probability of overload as predicted, as observed (red: outside of what was predicted), and by "
            "the tail.",
        )
        + table(found, list(found[0]) if found else ["broker"])
    )
    if misjudged:
        body += "<h3>Items with heavier tails than predicted</h3>"
        body += table(misjudged, list(misjudged[0]), limit=15)
    return Section("Risk", body)


def utility(directory: Path) -> Section:
    """`utility`: topics that nobody in their domain asks for, or has a use for."""
    summary = read_summary(directory)
    useless = summary.get("useless", [])
    bars = [
        Bar(
            row["topic"],
            row["unwanted_messages"],
            f"{row['topic']} in {row['domain']}\n"
            f"{row['unwanted_messages']:,} messages that nobody there asked for",
            "other",
        )
        for row in summary["unwanted"][:MAX_TOPICS]
    ] + [
        Bar(
            row["topic"],
            row["useless_messages"],
            f"{row['topic']} in {row['domain']}\nutility {row['utility']:.2f} to {row['subscribers']} "
            f"subscribers, {row['useless_messages']:,} messages",
            "low",
        )
        for row in useless[:MAX_TOPICS]
    ]
    body = (
        f"<p>{summary['chronically_unwanted']:,} of {summary['topics']:,} topics are asked for by nobody in "
        f"their domain ({summary['unwanted_share']:.2%} of all messages); "
        f"{summary.get('chronically_useless', 0):,} of {summary.get('judged_topics', 0):,} that have "
        "subscribers are of no use to them.</p>"
    )
    if bars:
        body += figure(rows(bars, ""), "Messages: orange asked for by nobody in their domain, red of no use.")
    heads = ["topic", "domain", "unwanted_messages", "unwanted_share", "seconds"]
    body += table(summary["unwanted"], heads, limit=15) if summary["unwanted"] else ""
    heads = ["topic", "domain", "utility", "useless_messages", "useless_share", "subscribers"]
    body += table(useless, heads, limit=15) if useless else ""
    return Section("Utility", body)


def _bar(label: str, share: float, hover: str, style: str) -> Bar:
    return Bar(label, 100 * share, f"{label}\n{number(share)} {hover}", style)


def _share(share: Mapping[str, Any]) -> float:
    return float(share["value"])
