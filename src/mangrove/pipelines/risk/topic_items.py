"""Which item a topic belongs to, by what a problem or a plan says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mangrove.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = "of_domain string, topic string, item int"


@dataclass(frozen=True, slots=True)
class TopicItems:
    """Numbers of items by topic. A topic of several domains is told apart by `item = topic@domain`."""

    items: tuple[str, ...]
    rows: tuple[tuple[str, str, int], ...]
    """domain (empty: any), topic, number of the item"""
    domain: str = ""
    """the only domain whose rows count; empty: all"""

    def frame(self, spark: SparkSession) -> DataFrame:
        """As a small table to join with."""
        return spark.createDataFrame(list(self.rows), TOPICS)


def topic_items(document: Mapping[str, Any], items: Sequence[str], source: str) -> TopicItems:
    """From the `topics` of a problem or an answer; without them an item is the topic of its name."""
    topics = document.get("topics") or {item: [item] for item in items}
    if not isinstance(topics, Mapping):
        raise InputError(f"{source}: topics: not an object", hint="items with their topics")
    rows: dict[tuple[str, str], int] = {}
    for number, item in enumerate(items):
        listed = topics.get(item, [item])
        for topic in listed if isinstance(listed, list) else [item]:
            name, at, of_domain = item.rpartition("@")
            key = (of_domain, str(topic)) if at and listed == [name] else ("", str(topic))
            if rows.setdefault(key, number) != number:
                raise InputError(
                    f"{source}: topics: {topic!r} is in two items", hint="profile the domains apart"
                )
    domain = document.get("domain")
    return TopicItems(
        tuple(items), tuple((*key, n) for key, n in rows.items()), domain if isinstance(domain, str) else ""
    )
