"""Mirrored topics at a gateway: second copies of messages, by brokers and on paths of their own."""
