"""The agent of a domain: runs its brokers and its gateway."""
