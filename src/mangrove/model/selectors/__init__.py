"""Selectors: conditions on the headers of messages, as `where="severity >= 3"` in a subscription."""
