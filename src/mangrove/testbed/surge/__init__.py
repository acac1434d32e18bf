"""A surge of traffic in a domain: which edge is overloaded, what moves, what becomes of the messages."""
