"""Paths between two nodes: shortest, separated, resilient, within limits."""
