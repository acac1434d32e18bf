"""Who leads a domain: a lease in the store, and in which order agents try for it."""
