"""Sampled texts as training material: each different text once, in an order that depends on nothing but them.

A publisher that says the same all day teaches no more than one that says it once. Texts are ordered by a hash
of themselves, so the first of them are a sample at random, and the same one whatever the files, the
partitions or the cluster; learning meets them in this order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEPARATOR = ","


def chosen_texts(rows: DataFrame, most: int) -> DataFrame:
    """`message_texts` → at most so many different texts: (rank, text)."""
    from pyspark.sql import functions as f

    return (
        rows.select(f.col("words").alias("text"))
        .where("length(text) > 0")
        .distinct()
        .select(f.xxhash64("text").alias("rank"), "text")
        .orderBy("rank", "text")
        .limit(most)
    )


def vocabulary(texts: DataFrame, least_count: int, most: int) -> DataFrame:
    """Words that occur often enough, the most frequent first: (word, count)."""
    from pyspark.sql import functions as f

    words = texts.select(f.explode(f.split("text", SEPARATOR)).alias("word")).where("length(word) > 0")
    counts = words.groupBy("word").agg(f.count("*").alias("count")).where(f.col("count") >= least_count)
    return counts.orderBy(f.desc("count"), "word").limit(most)


def sentences(texts: DataFrame, words: DataFrame) -> DataFrame:
    """Texts as lists of known words, in one partition, by rank: what is learnt depends on the order.

    Texts with a single known word are left out: nothing stands near it.
    """
    from pyspark.sql import functions as f

    tokens = texts.select("rank", "text", f.posexplode(f.split("text", SEPARATOR)).alias("place", "word"))
    known = tokens.join(words.select("word").hint("broadcast"), "word")
    in_order = f.array_sort(f.collect_list(f.struct("place", "word")))
    listed = known.groupBy("rank", "text").agg(in_order.alias("all"))
    kept = listed.where(f.size("all") > 1).select("rank", "text", f.col("all.word").alias("words"))
    return kept.repartition(1).sortWithinPartitions("rank", "text").select("words")
