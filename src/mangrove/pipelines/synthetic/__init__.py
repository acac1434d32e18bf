"""Synthetic lakes with known parameters."""
