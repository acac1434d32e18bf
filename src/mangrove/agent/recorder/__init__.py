"""Telemetry of a site: looks once a second and writes rows of the lake."""
