"""Congestion control in an agent: what it learns of its domain, and whom it tells what."""
