"""What jobs of the pipelines leave, and the page that shows it, taken apart."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mangrove.pipelines.output import MARKER, write_json


class Elements(HTMLParser):
    """Every element with its attributes, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def profile_output(directory: Path, topics: list[str]) -> None:
    """What `profile` leaves: rates of 10, 20, …, each with a deviation of 2, and two brokers."""
    directory.mkdir(parents=True)
    count = len(topics)
    rows = [
        {
            "topic": topic,
            "mean_rate": 10.0 * (place + 1),
            "variance": 4.0,
            "burst_factor": 1.5,
            "replication": 1.0,
            "filters": 0.0,
            "message_bytes": 64.0,
        }
        for place, topic in enumerate(topics)
    ]
    pq.write_table(pa.Table.from_pylist(rows), directory / "topics.parquet")
    np.save(directory / "covariance.npy", 4.0 * np.eye(count))
    problem: dict[str, Any] = {
        "items": topics,
        "mean_rate": [row["mean_rate"] for row in rows],
        "covariance": (4.0 * np.eye(count)).tolist(),
        "brokers": ["<b>one</b>", "two"],
        "capacity": [200.0, 100.0],
    }
    write_json(directory / "problem.json", problem)
    summary = {"topics": count, "windows": 100, "window_s": 1, "peaks": {"<i>north</i>": ["<u>09:00</u>"]}}
    write_json(directory / "summary.json", summary)
    (directory / MARKER).write_text("profile\n")


def plan_file(path: Path, allocation: dict[str, list[str]], risk: float) -> Path:
    """An answer of `plan allocate`."""
    write_json(
        path,
        {
            "allocation": allocation,
            "risk": dict.fromkeys(allocation, risk),
            "joint_ok": 1 - risk,
            "round_robin": {"joint_ok": 0.5, "risk": dict.fromkeys(allocation, 0.5)},
        },
    )
    return path


def marked(directory: Path, job: str, summary: object) -> Path:
    """The output of a job that has nothing but its summary."""
    directory.mkdir(parents=True)
    write_json(directory / "summary.json", summary)
    (directory / MARKER).write_text(f"{job}\n")
    return directory
