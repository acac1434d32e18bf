"""Who wants what: in this domain, in the others, and what follows for the head broker."""
