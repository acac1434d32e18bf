"""Transforms of messages, in processes of their own: a bad one costs its own topic, and no other."""
