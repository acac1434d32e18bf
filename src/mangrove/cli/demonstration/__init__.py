"""Demonstrations: `mangrove demo`."""
