"""One Spark session for all Spark tests: two cores, no web page, few shuffle partitions.

Java that lives for minutes is faster if it does not optimise for hours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mangrove.pipelines.spark_session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    quick = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    with session("local[2]", memory="1g", conf=[quick]) as running:
        running.conf.set("spark.sql.shuffle.partitions", "2")
        yield running
