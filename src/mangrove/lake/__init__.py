"""The telemetry lake without Spark: schemas, files, writer."""
