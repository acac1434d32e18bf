"""Frozen value types shared by all rooms."""
