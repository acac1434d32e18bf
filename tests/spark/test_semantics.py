"""`semantics` on texts with known synonyms: what it learns, that it is the same every time, and bad input."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mangrove.errors import InputError
from mangrove.lake.vector_file import read_vectors
from mangrove.lake.writer import LakeWriter
from mangrove.model.congestion.word_vectors import SemanticUtility
from mangrove.model.telemetry import MESSAGE_TEXTS
from mangrove.pipelines.jobs import semantics
from mangrove.pipelines.reading.source import lake as lake_source
from mangrove.pipelines.semantics.training import Training
from mangrove.pipelines.synthetic.texts import generate_texts
from mangrove.simulation.language.lexicon import THEMES

pytestmark = pytest.mark.timeout(600)
SETTINGS = semantics.SemanticsSettings(training=Training(passes=6))
TEXTS = 1500


def test_synonyms_are_found_and_the_table_does_not_depend_on_files_and_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = []
    for name, domains, partitions in (("one", ["a"], "1"), ("several", ["a", "b", "c"], "7")):
        generate_texts(tmp_path / name, TEXTS, seed=3, domains=domains)
        if name == "several":
            generate_texts(tmp_path / name, TEXTS, seed=3, domains=["b"])  # much is there twice
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        try:
            source = lake_source(str(tmp_path / name))
            summary = semantics.run(spark, source, tmp_path / f"{name}.out", SETTINGS)
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", "2")
        found.append((tmp_path / f"{name}.out" / "vectors.npz").read_bytes())
        assert summary == json.loads((tmp_path / f"{name}.out" / "summary.json").read_text())
        assert (summary["texts"], summary["skipped"]) == (TEXTS, [])
    assert found[0] == found[1]

    table = read_vectors(tmp_path / "one.out" / "vectors.npz")
    concepts = [concept for theme in THEMES.values() for concept in theme]
    published = {concept.published for concept in concepts}
    right = 0
    for concept in concepts:
        nearest = [word for word, _ in table.nearest(concept.asked_for, len(table)) if word in published]
        right += nearest[0] == concept.published
    assert right >= 0.9 * len(concepts)
    flood = SemanticUtility(table, {"flood", "dam", "rain"})
    assert flood({"inundation", "barrage", "precipitation"}) > 0.3
    assert flood({"equity", "bullion", "debenture"}) == 0.0


def write_texts(lake: Path, texts: Iterable[str]) -> Path:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    writer = LakeWriter(lake)
    rows = [
        {"ts": start + timedelta(seconds=number), "domain": "a", "topic": "t", "words": text}
        for number, text in enumerate(texts)
    ]
    writer.add(MESSAGE_TEXTS, rows)
    writer.close()
    return lake


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (None, "message_texts has no Parquet files"),
        ([""], "no texts at .*message_texts"),
        (["a,b,c", "a,b,d"] * 9, "too few words: 0 occur 5 times or more in 2 texts"),
    ],
)
def test_too_little_to_learn_from_is_said(
    spark: SparkSession, tmp_path: Path, texts: list[str] | None, problem: str
) -> None:
    lake = tmp_path / "lake"
    (lake / MESSAGE_TEXTS.name).mkdir(parents=True)
    if texts is not None:
        write_texts(lake, texts)
    with pytest.raises(InputError, match=problem):
        semantics.run(spark, lake_source(str(lake)), tmp_path / "out", SETTINGS)
    assert not (tmp_path / "out").exists()


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="--dimensions: 257"):
        semantics.SemanticsSettings(training=Training(dimensions=257)).check()
