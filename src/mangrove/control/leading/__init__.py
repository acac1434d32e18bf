"""One term of a leader: its departments, its desk for clients, and what is done when."""
