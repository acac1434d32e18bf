"""Coordination that outlives an agent: JetStream key-value buckets on the management broker."""
