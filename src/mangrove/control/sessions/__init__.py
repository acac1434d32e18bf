"""Offload sessions: from a broker that is overloaded to clients that are served elsewhere, step by step."""
