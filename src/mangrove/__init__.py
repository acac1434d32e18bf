"""Mangrove: resilient, QoS-aware, federated publish/subscribe messaging over real brokers."""

__version__ = "0.1.0"
