"""Explicit routes of contracts: chosen at the source, known by label on the way."""
