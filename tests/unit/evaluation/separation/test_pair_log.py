"""The log of pairs: a line each, and the summary's figures are sums over its lines."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from mangrove.errors import InputError
from mangrove.evaluation.separation.gap import METHODS, GapSetup, run_gap
from mangrove.evaluation.separation.pair_log import PairRecord, pair_log

SETUP = GapSetup(nodes=120, m=4, overlay=30, pairs=20, regions=30)


def test_the_summary_is_the_sum_of_the_lines() -> None:
    records: list[PairRecord] = []
    summary = run_gap(SETUP, [3], on_record=records.append)
    assert summary == run_gap(SETUP, [3])
    assert len(records) == 20
    for position, radius in enumerate(SETUP.radii):
        for method in ("primary", *METHODS):
            lost = sum(record.regions - record.connected[radius][method] for record in records)
            assert lost == summary.failures[method][position].mean
    for method in METHODS:
        mean = sum(record.proximity[method] for record in records) / 20
        assert mean == pytest.approx(summary.near_share[method].mean)
    for record in records:
        assert record.primary[0] == record.source
        assert all(path[-1] == record.target for path in record.alternatives.values())


def test_both_formats_hold_the_same(tmp_path: Path) -> None:
    for name in ("log.csv", "log.jsonl"):
        with pair_log(tmp_path / name) as log:
            run_gap(SETUP, [1, 2], on_record=log.write)
        assert log.lines == 40
    with (tmp_path / "log.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    documents = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(rows) == len(documents) == 40
    for row, document in zip(rows, documents, strict=True):
        assert int(row["seed"]) == document["seed"]
        assert row["path_primary"] == " > ".join(document["primary"])
        assert int(row["connected_gap_div_1000"]) == document["connected"]["1000.0"]["gap_div"]


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format"), pair_log(tmp_path / "log.txt"):
        pass
    with pytest.raises(InputError, match="cannot write"), pair_log(tmp_path / "missing" / "log.csv"):
        pass
