"""`mangrove evaluate` on where clients are served."""
