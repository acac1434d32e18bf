"""Synthetic `message_texts`: publishers who use two words for everything, with known meanings."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from mangrove.lake.writer import LakeWriter
from mangrove.model.telemetry import MESSAGE_TEXTS
from mangrove.pipelines.synthetic.rates import START
from mangrove.simulation.language.texts import texts

TEXTS_A_SECOND = 8


def generate_texts(
    lake: Path, count: int, seed: int = 1, domains: Iterable[str] = ("seattle",), start: datetime = START
) -> int:
    """Write so many texts, from all domains in turn; how many seconds they take."""
    names = list(domains)
    writer = LakeWriter(lake, max_kept_rows=count)
    rows = [
        {
            "ts": start + timedelta(seconds=number // TEXTS_A_SECOND),
            "domain": names[number % len(names)],
            "topic": f"{text.theme}.{number % TEXTS_A_SECOND}",
            "words": ",".join(text.words),
        }
        for number, text in enumerate(texts(count, seed))
    ]
    writer.add(MESSAGE_TEXTS, rows)
    writer.close()
    return -(-count // TEXTS_A_SECOND)
