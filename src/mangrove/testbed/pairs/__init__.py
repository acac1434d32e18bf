"""Two brokers of this machine joined in several ways, for measurements beside each other."""
