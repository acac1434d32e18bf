"""Logins at brokers, read from where their secrets are."""
