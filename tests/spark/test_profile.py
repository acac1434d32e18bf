"""`profile` recovers known parameters, equals a plain numpy computation, and survives every fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.kit.rates import place, plain_rates, shard

from mangrove.errors import InputError
from mangrove.model.federation import Domain, Edge, Federation, Host
from mangrove.model.plans.topology import topology_fingerprint
from mangrove.model.telemetry import TOPIC_RATES
from mangrove.model.topics import Contract, Mirror, TopicRules
from mangrove.pipelines.jobs.profile import Brokers, Profile, ProfileSettings, profile, write_profile
from mangrove.pipelines.rates.peaks import parse_peak
from mangrove.pipelines.reading.schemas import SPARK_TYPES
from mangrove.pipelines.reading.source import Source
from mangrove.pipelines.synthetic.rates import SyntheticRates, Truth, generate, truth
from mangrove.planning.problem.document import read_problem

pytestmark = pytest.mark.timeout(300)

ALL_DAY = ProfileSettings(peak=parse_peak("all"))
TWO = Brokers(("b1", "b2"), (4000.0, 4000.0))


T0 = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp())


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Of a catalog; a table's damage must not change what is read of others."""
    spark.sql(f"CREATE DATABASE profile_test LOCATION '{tmp_path / 'warehouse'}'")
    yield "profile_test"
    spark.sql("DROP DATABASE profile_test CASCADE")
    spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def simple(lake: Path, seconds: int = 50) -> Path:
    rng = np.random.default_rng(5)
    rows = [(T0 + s, "b", topic, int(rng.poisson(20))) for s in range(seconds) for topic in ("x", "y")]
    return place(lake, "good", shard(rows))


@pytest.fixture(scope="module")
def day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth, Profile]:
    """A day of twelve topics with every kind of fault in the lake."""
    lake = tmp_path_factory.mktemp("day") / "lake"
    spec = SyntheticRates(
        topics=12, seed=3, copied_files=2, late_rows=300, reset_rows=20, damaged_files=1, gap=True
    )
    generate(spec, lake)
    return lake, truth(spec), profile(spark, str(lake))


def test_the_problem_says_for_whom_it_is(day: tuple[Path, Truth, Profile]) -> None:
    """What contracts ask of items, on which hosts brokers are, how old the data are: a plan needs it all."""
    _, facts, found = day
    first = found.topics[0][1]
    hosts = (
        Host(name="h1", address="10.0.0.1", brokers=("head", "edge1")),
        Host(name="h2", address="10.0.0.2", brokers=("edge2",)),
    )
    federation = Federation(
        name="pacific",
        domains={"seattle": Domain(name="seattle", base_port=4000, edges=(Edge(), Edge()), hosts=hosts)},
        topics=TopicRules((Contract(match=first, mirror=Mirror.STANDBY),)),
    )
    brokers = Brokers(
        ("seattle-edge1", "seattle-edge2"), (9000.0, 9000.0), federation=federation, domain="seattle"
    )
    document = found.problem(brokers)
    assert (document["federation"], document["domain"]) == ("pacific", "seattle")
    assert document["topology"] == topology_fingerprint(federation, "seattle")
    assert document["mirrored"] == {first: "standby"}
    assert document["hosts"] == {"h1": ["seattle-edge1"], "h2": ["seattle-edge2"]}
    assert document["topics"] == {topic: [topic] for topic in facts.topics}
    read = read_problem(document, "problem")
    assert read.warnings == ()
    assert read.provenance.data_until == document["data_until"]
    elsewhere = found.problem(TWO)
    assert "federation" not in elsewhere
    assert read_problem(elsewhere, "problem").warnings == ()


def test_known_parameters_are_recovered(day: tuple[Path, Truth, Profile]) -> None:
    _, facts, found = day
    figures = found.statistics
    assert found.peaks == {"seattle": ((540, 660), (840, 960))}
    assert figures.windows == 4 * 3600
    assert [topic for _, topic in found.topics] == list(facts.topics)
    # 14,400 windows: a mean is within 5 standard errors, a covariance within 5 % of the matrix's size.
    standard_error = np.sqrt(np.diag(facts.covariance) / figures.windows)
    assert (np.abs(figures.mean_rate - facts.mean_rate) < 5 * standard_error).all()
    off = np.linalg.norm(figures.covariance - facts.covariance) / np.linalg.norm(facts.covariance)
    assert off < 0.05
    np.testing.assert_allclose(figures.replication, facts.replication)
    np.testing.assert_allclose(figures.filters, facts.filters)
    np.testing.assert_allclose(figures.message_bytes, facts.message_bytes)


def test_faults_are_counted_by_file(day: tuple[Path, Truth, Profile]) -> None:
    _, _, found = day
    assert found.repeated == 300
    reasons = {Path(each.path).name: (each.rows, each.reason) for each in found.skipped}
    assert reasons["damaged-0.parquet"][1].startswith("not a readable Parquet file")
    assert reasons["late-1.parquet"] == (20, "left out: a negative count (a counter was reset)")
    assert sum("a copy of" in reason for _, reason in reasons.values()) == 2


def test_equals_plain_numpy(day: tuple[Path, Truth, Profile], spark: SparkSession) -> None:
    lake, _, at_peak = day
    whole = profile(spark, str(lake), ALL_DAY)
    plain = plain_rates(lake, ["rates-"])
    np.testing.assert_allclose(whole.statistics.mean_rate, plain.mean().to_numpy(), rtol=1e-12)
    expected = np.cov(plain.to_numpy(), rowvar=False)
    np.testing.assert_allclose(whole.statistics.covariance, expected, rtol=1e-9, atol=1e-9)
    hour = (plain.index.to_numpy() % 86400) / 3600
    busy = plain[((hour >= 9) & (hour < 11)) | ((hour >= 14) & (hour < 16))]
    np.testing.assert_allclose(
        at_peak.statistics.covariance, np.cov(busy.to_numpy(), rowvar=False), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(at_peak.statistics.burst_factor, (busy.max() / busy.mean()).to_numpy())


def test_longer_windows_and_missing_seconds(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows = [
        (T0 + s, "b", topic, int(rng.poisson(30)))
        for s in range(1200)
        for topic in ("x", "y", "z")
        if rng.random() < 0.8
    ]
    place(tmp_path, "holes", shard(rows))
    found = profile(spark, str(tmp_path), ProfileSettings(peak=parse_peak("all"), window_s=10))
    plain = plain_rates(tmp_path, ["holes"]).to_numpy()[: 1200 // 10 * 10]
    by_window = plain.reshape(-1, 10, 3).sum(axis=1) / 10
    np.testing.assert_allclose(found.statistics.covariance, np.cov(by_window, rowvar=False), rtol=1e-9)


def test_covariance_is_positive_semidefinite_and_short_histories_are_shrunk(
    spark: SparkSession, tmp_path: Path
) -> None:
    generate(SyntheticRates(topics=40, seconds=30, seed=2, daily=False), tmp_path / "lake")
    found = profile(spark, str(tmp_path / "lake"))
    plain = np.cov(plain_rates(tmp_path / "lake", ["rates-"]).to_numpy(), rowvar=False)
    assert np.linalg.matrix_rank(plain) == 29
    matrix = np.array(found.problem(TWO)["covariance"])
    assert 0 < found.statistics.shrinkage < 1
    assert np.linalg.eigvalsh(matrix)[0] > 0
    np.testing.assert_allclose(np.diag(matrix), np.diag(plain))
    unshrunk = profile(spark, str(tmp_path / "lake"), ProfileSettings(shrinkage=0.0))
    raw = np.array(unshrunk.problem(TWO)["covariance"])
    assert np.linalg.eigvalsh(raw)[0] >= -1e-12 * np.linalg.eigvalsh(raw)[-1]


def test_groups_keep_every_variance(day: tuple[Path, Truth, Profile], spark: SparkSession) -> None:
    lake, facts, _ = day
    groups = {"odd": ["plant.line000.sensor01", "plant.line000.sensor03"], "rest": ["plant.>"]}
    given = profile(spark, str(lake), ProfileSettings(groups=groups))
    problem = given.problem(TWO)
    assert problem["items"] == ["rest", "odd"]
    assert np.array(problem["covariance"]).sum() == pytest.approx(given.statistics.covariance.sum())
    clustered = profile(spark, str(lake), ProfileSettings(cluster=True))
    low = np.flatnonzero(facts.mean_rate <= facts.mean_rate.mean())
    for members in clustered.members.values():
        if len(members) > 1:
            assert len({number // 4 for number in members}) == 1, "only topics of one group are correlated"
            assert set(members) <= set(low.tolist())
    assert len(clustered.members) < 12


def test_output_is_whole_repeatable_and_feeds_the_planner(
    day: tuple[Path, Truth, Profile], tmp_path: Path
) -> None:
    from mangrove.planning.problem.document import read_problem

    _, _, found = day
    output = tmp_path / "out"
    write_profile(found, TWO, output)
    first = {path.name: path.read_bytes() for path in output.iterdir()}
    write_profile(found, TWO, output)
    assert {path.name: path.read_bytes() for path in output.iterdir()} == first
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    read = read_problem(json.loads(first["problem.json"]), "problem.json")
    assert read.warnings == ()
    assert len(read.problem.items) == 12
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(InputError, match="did not write"):
        write_profile(found, TWO, tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "keep me"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.drop_columns(["msgs_out"]), "missing columns: msgs_out"),
        (lambda t: t.append_column("colour", pa.array(["red"] * t.num_rows)), "unknown columns: colour"),
        (lambda t: t.set_column(3, "msgs_in", pa.array(["7"] * t.num_rows)), "column msgs_in is string"),
        (lambda t: t.replace_schema_metadata({"mangrove.schema_version": "2"}), "schema version 2"),
    ],
)
def test_files_of_another_shape_are_skipped_by_name(
    spark: SparkSession, tmp_path: Path, change: object, reason: str
) -> None:
    simple(tmp_path)
    assert callable(change)
    bad = place(tmp_path, "bad", change(shard([(T0 + s, "b", "x", 99) for s in range(40)])))
    found = profile(spark, str(tmp_path), ALL_DAY)
    assert [(each.path, each.rows) for each in found.skipped] == [(str(bad), 40)]
    assert reason in found.skipped[0].reason
    assert found.rows == 100


def test_a_damaged_page_inside_a_file_skips_that_file(spark: SparkSession, tmp_path: Path) -> None:
    simple(tmp_path)
    rng = np.random.default_rng(1)
    bad = place(
        tmp_path, "bad", shard([(T0 + s, "b", "z", int(rng.integers(1_000_000))) for s in range(5000)])
    )
    data = bytearray(bad.read_bytes())
    data[40:4000] = bytes(3960)
    bad.write_bytes(data)
    found = profile(spark, str(tmp_path), ALL_DAY)
    assert [topic for _, topic in found.topics] == ["x", "y"]
    assert [(each.path, each.rows) for each in found.skipped] == [(str(bad), 5000)]


@pytest.mark.parametrize(("of_table", "column"), [(False, "ts"), (True, "ts"), (True, "msgs_in")])
def test_what_is_damaged_may_be_met_by_the_first_look(
    spark: SparkSession, tmp_path: Path, database: str, of_table: bool, column: str
) -> None:
    """How dense rows are that tell no times is seen by a look at some: it fails as any read may."""
    rng = np.random.default_rng(1)
    rows = [(T0 + s, "b", "z", int(rng.integers(1_000_000))) for s in range(5000)]
    paths = [simple(tmp_path), *(place(tmp_path, f"bad{number}", shard(rows)) for number in range(3))]
    for path in paths:
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table, path, coerce_timestamps="us", write_statistics=False)
    for number, path in enumerate(paths[1:]):
        chunk = pq.read_metadata(path).row_group(0).column(table.schema.get_field_index(column))
        start, data = chunk.dictionary_page_offset, bytearray(path.read_bytes())
        data[start + 40 : start + 4000] = bytes([number] * 3960)
        path.write_bytes(data)
    source: str | Source = str(tmp_path)
    if of_table:
        kinds = ", ".join(f"{column.name} {SPARK_TYPES[column.type]}" for column in TOPIC_RATES.columns)
        spark.sql(
            f"CREATE TABLE {database}.rates ({kinds}, date string) USING parquet "
            f"PARTITIONED BY (date, domain) LOCATION '{tmp_path / TOPIC_RATES.name}'"
        )
        spark.sql(f"MSCK REPAIR TABLE {database}.rates")
        source = Source(None, {TOPIC_RATES.name: f"{database}.rates"})
    found = profile(spark, source, ALL_DAY)
    assert [topic for _, topic in found.topics] == ["x", "y"]
    assert found.rows == 100
    damage = "damaged in part" if of_table else "damaged (0 of 5000 rows can be read)"
    assert {each.reason.partition(":")[0] for each in found.skipped} == {damage}


def test_clock_going_backwards_is_noted_and_the_largest_row_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [(T0 + s, "b", "x", 10) for s in range(60)] + [(T0 + s, "b", "x", 500) for s in range(30, 45)]
    place(tmp_path, "stepped", shard(rows))
    place(tmp_path, "again", shard(rows[:50] + rows[:10]))
    found = profile(spark, str(tmp_path), ALL_DAY)
    assert found.statistics.mean_rate.tolist() == [(45 * 10 + 15 * 500) / 60]
    assert found.repeated == 15 + 60
    assert [(each.path, each.rows) for each in found.skipped] == [
        (f"{tmp_path}/topic_rates/date=2026-03-02/domain=a", 15 + 15)
    ]
    assert "backwards" in found.skipped[0].reason


def test_null_rows_are_left_out_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    simple(tmp_path)
    table = shard([(T0 + s, "b", "x", 5) for s in range(100, 110)])
    table = table.set_column(2, "topic", pa.array(["x"] * 6 + [None] * 4))
    path = place(tmp_path, "holes", table)
    found = profile(spark, str(tmp_path), ALL_DAY)
    assert [(each.path, each.rows) for each in found.skipped] == [(str(path), 4)]
    assert found.rows == 106


def test_constant_topics_have_no_covariance(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = [
        (T0 + s, "b", t, 7 if t == "still" else int(rng.poisson(9)))
        for s in range(99)
        for t in ("still", "x")
    ]
    place(tmp_path, "f", shard(rows))
    found = profile(spark, str(tmp_path), ALL_DAY)
    assert found.statistics.covariance[0].tolist() == [0.0, 0.0]
    assert found.statistics.covariance[1, 1] > 0
    assert found.warnings == ["1 topics never change their rate: no variance, no covariance"]


def test_same_topic_in_two_domains_and_on_two_brokers(spark: SparkSession, tmp_path: Path) -> None:
    place(tmp_path, "f", shard([(T0 + s, b, "x", 3 + s % 2) for s in range(40) for b in ("b1", "b2")]))
    place(tmp_path, "f", shard([(T0 + s, "c", "x", 1 + s % 3) for s in range(40)]), domain="c")
    found = profile(spark, str(tmp_path), ALL_DAY)
    assert list(found.members) == ["x@a", "x@c"]
    assert found.statistics.mean_rate[0] == pytest.approx(7.0)
    only = profile(spark, str(tmp_path), ProfileSettings(peak=parse_peak("all"), domains=frozenset({"c"})))
    assert list(only.members) == ["x"]


def test_what_cannot_be_profiled_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        profile(spark, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="has no table topic_rates"):
        profile(spark, str(tmp_path))
    (tmp_path / "topic_rates").mkdir()
    with pytest.raises(InputError, match="has no Parquet files"):
        profile(spark, str(tmp_path))
    place(tmp_path, "empty", shard([(T0, "b", "x", 1)]).slice(0, 0))
    with pytest.raises(InputError, match="holds no rows"):
        profile(spark, str(tmp_path))
    place(tmp_path, "one", shard([(T0, "b", "x", 1)]))
    with pytest.raises(InputError, match="1 window of 1 s in the peak periods, from 1 rows"):
        profile(spark, str(tmp_path))
    only_bad = tmp_path / "bad"
    place(only_bad, "bad", shard([(T0, "b", "x", 1)]).drop_columns(["filters"]))
    with pytest.raises(
        InputError, match=r"no usable file .* 1 skipped\n .*bad.parquet: 1 rows: missing columns"
    ):
        profile(spark, str(only_bad))
