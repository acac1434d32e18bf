"""Promised and measured availability over a long time."""
