"""The live view: what a federation says of itself, as metrics and as pages. No other room knows of it."""
