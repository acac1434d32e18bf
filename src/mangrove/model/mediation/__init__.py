"""Transforms as contracts name them, and what gateways count of them."""
