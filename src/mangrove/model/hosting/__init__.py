"""The hosts of a domain: what is said to those who run them, and of them."""
