"""Solvers of the allocation problem, one module each, and the registry that calls them."""
