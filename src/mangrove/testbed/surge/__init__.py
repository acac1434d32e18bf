"""A surge of traffic in a domain with several edges: who is overloaded, what moves, what becomes of messages."""
