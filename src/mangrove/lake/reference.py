"""The reference page of the telemetry lake, from the description of its tables."""

from __future__ import annotations

from mangrove.model.telemetry import REPLACES_KEY, SCHEMA_VERSION, TABLES, VERSION_KEY


def lake_reference() -> str:
    """The reference page of the lake's tables."""
    parts = [
        "# Telemetry lake",
        "",
        "Generated from the code by `make docs`.",
        "",
        "`LAKE/<table>/date=YYYY-MM-DD/domain=NAME/*.parquet`. A row describes one second; counts are what "
        "happened in that second, not running totals. Files whose name begins with `.` or `_` are not part "
        "of the lake.",
        "",
        f"Schema version: {SCHEMA_VERSION}, in the metadata of each file as `{VERSION_KEY}`. A file of "
        "another version, or with missing, additional or differently typed columns, is skipped and reported. "
        "`domain` may be left out of a file, because its path has it; narrower integers and floats, and "
        f"timestamps of other precision or without a zone (read as UTC), are accepted. `{REPLACES_KEY}` "
        "lists the smaller files whose rows a merged file holds: where they still exist, they are ignored.",
    ]
    for table in TABLES.values():
        parts += [
            "",
            f"## {table.name}",
            "",
            f"{table.meaning} Key: {', '.join(f'`{k}`' for k in table.key)}.",
        ]
        parts += ["", "| column | type | meaning |", "|---|---|---|"]
        for column in table.columns:
            optional = ", may be null" if column.optional else ""
            parts.append(f"| `{column.name}` | {column.type.value}{optional} | {column.meaning} |")
    return "\n".join(parts) + "\n"
