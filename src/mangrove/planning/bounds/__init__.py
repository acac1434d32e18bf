"""How good an allocation could be at best."""
