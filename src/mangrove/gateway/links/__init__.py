"""Overlay links: connections to the neighbouring gateways, proven and greeted before anything else."""
