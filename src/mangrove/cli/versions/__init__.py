"""Changes of a running federation, from the command line."""
