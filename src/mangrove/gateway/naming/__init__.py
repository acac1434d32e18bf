"""Where a domain has names of its own: what passes between its broker and its gateway is renamed."""
