"""Which brokers serve a topic, who is told of it, and where its publishers publish."""
