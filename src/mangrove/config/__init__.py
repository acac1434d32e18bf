"""The federation file: YAML to model, all mistakes reported at once."""
