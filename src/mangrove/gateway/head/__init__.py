"""The gateway's side towards its own brokers: who attaches, what is wanted, and what passes either way."""
