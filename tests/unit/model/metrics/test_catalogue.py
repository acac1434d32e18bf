"""Names keep to the conventions of those who collect them, and samples to the catalogue."""

from __future__ import annotations

import re

import pytest

from mangrove.model.metrics.catalogue import CATALOGUE, MetricKind
from mangrove.model.metrics.families import MAX_LABEL, OTHER, Families


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: str(metric.name))
def test_names_keep_to_conventions(metric: object) -> None:
    from mangrove.model.metrics.catalogue import Metric

    assert isinstance(metric, Metric)
    assert re.fullmatch(r"mangrove_[a-z]+(_[a-z]+)*", metric.name)
    assert (metric.kind is MetricKind.COUNTER) == metric.name.endswith("_total")
    assert metric.meaning.endswith(".")
    assert not re.search(r"_(ms|millis|kb|mb|percent)\b", metric.name), "base units alone"
    assert len(set(metric.labels)) == len(metric.labels)


def test_the_rest_is_summed_up() -> None:
    families = Families()
    families.count_by("messages_dropped_total", {"a": 5, "b": 9, "c": 1, "d": 2}, 2, "here")
    ((_, samples),) = families
    assert {sample.labels: sample.value for sample in samples} == {
        ("here", "b"): 9,
        ("here", "a"): 5,
        ("here", OTHER): 3,
    }


def test_long_labels_are_cut_and_still_told_apart() -> None:
    families = Families()
    families.put("topic_sent_total", 1, "here", "x" * 100_000 + "a")
    families.put("topic_sent_total", 2, "here", "x" * 100_000 + "b")
    ((_, samples),) = families
    assert len(samples) == 2
    assert all(len(sample.labels[1]) <= MAX_LABEL for sample in samples)


def test_rows_that_are_left_out_are_counted() -> None:
    families = Families()
    assert families.first([1, 2, 3], 2, "routes") == [1, 2]
    ((metric, samples),) = families
    assert (metric.name, samples[0]) == ("mangrove_metrics_omitted_rows", (("routes",), 1.0))


def test_a_name_outside_the_catalogue_is_an_error() -> None:
    with pytest.raises(KeyError):
        Families().put("something_else", 1)
