"""Brokers and hosts that fail under streams with and without a mirror, and what becomes of every message."""
