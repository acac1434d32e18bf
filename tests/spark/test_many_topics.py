"""More topics than fit in a matrix, at small size: dealt to items, whose figures are as exact."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mangrove.errors import InputError
from mangrove.pipelines.grouping import dealt_cube
from mangrove.pipelines.jobs import profile as job
from mangrove.pipelines.rates.items import membership
from mangrove.pipelines.synthetic.rates import SyntheticRates, generate

pytestmark = pytest.mark.timeout(600)
BROKERS = job.Brokers(names=("b1", "b2", "b3"), capacity=(5000.0,) * 3)


def test_items_of_many_topics_are_what_groups_of_few_would_be(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    generate(SyntheticRates(topics=12, seconds=600, domains=("north", "south")), lake)
    settings = job.ProfileSettings(peak=((0, 86400),), shrinkage=0.0)
    single = job.profile(spark, str(lake), settings)

    monkeypatch.setattr(job, "MAX_TOPICS", 20)
    monkeypatch.setattr(dealt_cube, "ITEMS", 16)
    found = job.profile(spark, str(lake), settings)
    assert found.dealt is not None
    assert len(found.members) == 16
    summary = job.write_profile(found, BROKERS, tmp_path / "out")
    assert (summary["topics"], summary["items"]) == (24, 16)
    assert list(summary["risk_error"]["by_items"]) == ["16", "8"]
    problem = json.loads((tmp_path / "out" / "problem.json").read_text())

    numbers = {topic: number for number, topic in enumerate(single.topics)}
    groups = {
        item: [numbers[pair] for pair in pairs]
        for item, pairs in zip(found.members, found.topics_of_items, strict=True)
    }
    assert sorted(number for each in groups.values() for number in each) == list(range(24))
    matrix = membership(groups, 24)
    assert problem["items"] == list(groups)
    assert problem["mean_rate"] == pytest.approx((matrix @ single.statistics.mean_rate).tolist())
    expected = matrix @ single.statistics.covariance @ matrix.T
    assert np.allclose(problem["covariance"], expected, rtol=1e-9, atol=1e-9)
    plain = job.Profile(**{**{n: getattr(single, n) for n in single.__slots__}, "members": groups})
    for name in ("replication", "filters", "size_bytes"):
        assert problem[name] == pytest.approx(plain.problem(BROKERS)[name], rel=0.02), name
    assert problem["topics"] == {item: [single.topics[n][1] for n in each] for item, each in groups.items()}

    members = pq.read_table(tmp_path / "out" / "members.parquet").to_pylist()
    assert [(row["domain"], row["topic"]) for row in members] == single.topics
    assert len(pq.read_table(tmp_path / "out" / "topics.parquet")) == 16
    with pytest.raises(InputError, match="--groups and --cluster go with at most 20 topics"):
        job.profile(spark, str(lake), job.ProfileSettings(cluster=True))
