"""Real brokers: supervise nats-server, render its configuration, poll it, speak its wire protocol."""
