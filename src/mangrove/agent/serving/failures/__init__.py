"""How an agent notices that brokers die, and computes what to do about it."""
