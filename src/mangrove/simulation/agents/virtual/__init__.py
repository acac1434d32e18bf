"""Virtual brokers, clients, stores and domains, and the time that passes for them."""
