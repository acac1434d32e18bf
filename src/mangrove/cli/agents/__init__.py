"""Commands about the agents of a domain: who leads it, and whether they decide by themselves."""
