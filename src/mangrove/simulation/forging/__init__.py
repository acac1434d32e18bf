"""Peers that lie: gateways of legitimate domains that forge, replay and alter what others say."""
