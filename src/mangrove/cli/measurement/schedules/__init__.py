"""Evaluations that play many seeded schedules of several agents."""
