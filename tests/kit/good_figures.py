"""The account of a stream that nothing happened to."""

from __future__ import annotations

from mangrove.testbed.accounting import Figures

GOOD = Figures(
    sent=7000,
    delivered=7000,
    lost=0,
    duplicated=0,
    out_of_order=0,
    late=0,
    in_time_ratio=1.0,
    longest_gap_ms=20.0,
    longest_send_gap_ms=5.0,
    longest_latency_ms=9.0,
    p50_ms=1.0,
    p99_ms=2.0,
)
