"""Experiments as trials: pure functions of a setting and a seed, played anywhere."""
