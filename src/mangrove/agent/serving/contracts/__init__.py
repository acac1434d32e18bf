"""Contracts at an agent: those by which it acts, and those that clients ask for."""
