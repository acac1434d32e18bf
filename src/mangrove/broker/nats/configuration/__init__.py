"""nats-server configuration files, rendered from values."""
