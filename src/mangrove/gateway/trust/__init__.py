"""Who may connect to a gateway: its keys, what a peer must prove, and how many may try."""
