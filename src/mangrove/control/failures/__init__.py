"""Brokers that die: how it is noticed, what is believed of whom, and what is done about it."""
