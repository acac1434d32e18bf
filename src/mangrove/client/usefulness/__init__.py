"""How useful messages are to a subscriber, what it says of publishers, and what these say themselves."""
