"""How long messages are inside the own domain."""
