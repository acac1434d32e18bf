"""How an agent watches brokers that are nats-servers."""
