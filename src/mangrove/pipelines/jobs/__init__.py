"""The jobs, one module each."""
