"""Faults that are brought about on purpose, beyond those that processes can be sent."""
