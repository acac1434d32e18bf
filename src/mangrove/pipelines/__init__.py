"""Spark jobs from telemetry to plans, and the lake that they read. The only importer of pyspark."""
