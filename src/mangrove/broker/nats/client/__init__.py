"""What a client says to a nats-server and hears from it, whole buffers at a time (decision 0034)."""
