"""Commands that run a federation, look at it and use it."""
