"""Whose word is whose: signed control messages, who may say what, and what is refused."""
