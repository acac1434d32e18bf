"""Sampled messages on their way through a gateway, as spans, where that is asked for."""
