"""Two gateway processes of one domain: the line between them, and what goes over it."""
