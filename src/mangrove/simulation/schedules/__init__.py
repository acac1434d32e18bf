"""Failure schedules: made from a seed, played on the production engines, promises checked."""
