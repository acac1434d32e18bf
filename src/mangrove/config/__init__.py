"""The federation file: YAML to model, all mistakes reported at once."""

from mangrove.config.load import Reading, load_federation, parse_federation, read_federation

__all__ = ["Reading", "load_federation", "parse_federation", "read_federation"]
