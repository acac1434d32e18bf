"""The published experiments, driven through the production code."""
