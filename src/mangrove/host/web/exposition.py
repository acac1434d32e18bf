"""Metrics in Prometheus' text format, by Prometheus' own library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mangrove.host.web.page_server import Page
from mangrove.model.metrics.catalogue import MetricKind
from mangrove.model.metrics.families import Families

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Collected

MISSING = b"this needs the package prometheus-client: pip install 'mangrove-messaging[monitor]'\n"


class _Collector:
    """Hands families to the library, which sees to the format."""

    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterator[Collected]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric, samples in self._families:
            kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
            family = kind(metric.name.removesuffix("_total"), metric.meaning, labels=metric.labels)
            for sample in samples:
                family.add_metric(sample.labels, sample.value)
            yield family


def exposition(families: Families) -> Page:
    """The page for collectors; without the library, what to do about it."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
    except ModuleNotFoundError:
        return Page(MISSING, status=501)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    return Page(generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4)
