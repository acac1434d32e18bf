"""One Spark session for all Spark tests: two cores, no web page, few shuffle partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mangrove.pipelines.spark_session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session("local[2]", memory="1g") as running:
        running.conf.set("spark.sql.shuffle.partitions", "2")
        yield running
