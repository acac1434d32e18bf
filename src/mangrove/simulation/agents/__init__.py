"""Domains under virtual time: brokers, clients, a store and the production brain of their agents."""
