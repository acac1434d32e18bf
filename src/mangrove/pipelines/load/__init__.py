"""Recorded load: what methods would have done about it, and what it will be tomorrow."""
