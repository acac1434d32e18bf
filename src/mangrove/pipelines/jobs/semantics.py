"""`semantics`: word vectors from sampled texts, by which subscribers value other words for the same.

Everything is learnt from the federation's own messages; no model comes from outside. With the same texts,
settings and seed the table is the same bytes, however many files, partitions or workers there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mangrove.errors import InputError
from mangrove.lake.vector_file import FILE_NAME, write_vectors
from mangrove.model.congestion.word_vectors import MAX_DIMENSIONS, MAX_WORDS, WordVectors
from mangrove.model.telemetry import MESSAGE_TEXTS
from mangrove.pipelines.output import check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.reading.rows import Rows, open_rows, unharmed
from mangrove.pipelines.reading.source import Source
from mangrove.pipelines.semantics.texts import chosen_texts, sentences, vocabulary
from mangrove.pipelines.semantics.training import Training, learnt, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "semantics"
MIN_WORDS = 20
NEAREST = 3
EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class SemanticsSettings:
    """What is learnt from, and how."""

    training: Training = field(default_factory=Training)
    domains: frozenset[str] | None = None
    most_texts: int = 200_000
    least_count: int = 5
    """Words that occur less often are not learnt."""
    most_words: int = MAX_WORDS

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        limits = {
            "--texts": (self.most_texts, 1, 10_000_000),
            "--least-count": (self.least_count, 1, 1_000_000),
            "--words": (self.most_words, MIN_WORDS, MAX_WORDS),
            "--dimensions": (self.training.dimensions, 2, MAX_DIMENSIONS),
            "--window": (self.training.window, 1, 100),
            "--passes": (self.training.passes, 1, 1000),
            "--learners": (self.training.partitions, 1, 1000),
        }
        for option, (value, least, most) in limits.items():
            if not least <= value <= most:
                raise InputError(f"{option}: {value:,}", hint=f"{least:,} to {most:,}")


def run(
    spark: SparkSession,
    source: Source,
    output: Path,
    settings: SemanticsSettings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write `vectors.npz` (for subscribers), `words.parquet` (for people) and `summary.json`."""
    chosen = settings or SemanticsSettings()
    chosen.check()
    check_output(output, JOB)
    rows = open_rows(spark, source, MESSAGE_TEXTS, columns=("words",), domains=chosen.domains)
    found = unharmed(lambda: _learn(rows, source, chosen, progress), rows)
    table, counts, texts = found
    nearest = {word: table.nearest(word, NEAREST) for word in table.words}
    summary = {
        "texts": texts,
        "words": len(table),
        "occurrences": sum(counts.values()),
        "least_similarity": table.least_similarity,
        "settings": asdict(chosen) | {"domains": sorted(chosen.domains) if chosen.domains else None},
        "examples": [_example(word, nearest[word]) for word in table.words[:: -(-len(table) // EXAMPLES)]],
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in rows.report()],
    }
    with output_directory(output, JOB) as directory:
        write_vectors(directory / FILE_NAME, table)
        write_parquet(directory / "words.parquet", _words_table(table.words, counts, nearest))
        write_json(directory / "summary.json", summary)
    return summary


def _learn(
    rows: Rows, source: Source, settings: SemanticsSettings, progress: Callable[[str], None]
) -> tuple[WordVectors, dict[str, int], int]:
    progress("choosing texts")
    texts = chosen_texts(rows.frame, settings.most_texts).persist()
    try:
        count = texts.count()
        if not count:
            raise InputError(
                f"no texts at {source.place(MESSAGE_TEXTS)}",
                hint="let contracts say `sample_text: true`, and record",
            )
        frame = vocabulary(texts, settings.least_count, settings.most_words)
        listed = frame.toArrow()
        counts = dict(zip(*(listed.column(name).to_pylist() for name in ("word", "count")), strict=True))
        if len(counts) < MIN_WORDS:
            raise InputError(
                f"too few words: {len(counts)} occur {settings.least_count} times or more in {count:,} texts",
                hint=f"record longer, or lower --least-count: {MIN_WORDS} words are needed",
            )
        progress(f"learning {len(counts):,} words from {count:,} texts")
        vectors = learnt(sentences(texts, frame), settings.training)
    finally:
        texts.unpersist()
    return table_of(vectors, list(counts), settings.training.seed), counts, count


def _example(word: str, nearest: Iterable[tuple[str, float]]) -> dict[str, Any]:
    return {"word": word, "nearest": [{"word": other, "cosine": cosine} for other, cosine in nearest]}


def _words_table(
    words: Iterable[str], counts: dict[str, int], nearest: dict[str, list[tuple[str, float]]]
) -> pa.Table:
    listed = list(words)
    return pa.table(
        {
            "word": listed,
            "count": pa.array([counts[word] for word in listed], pa.int64()),
            "nearest": [[other for other, _ in nearest[word]] for word in listed],
            "cosine": [[cosine for _, cosine in nearest[word]] for word in listed],
        }
    )
