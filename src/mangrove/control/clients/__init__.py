"""Clients of a domain: who is there, what each wants, and where it is served."""
