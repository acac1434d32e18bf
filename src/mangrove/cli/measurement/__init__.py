"""Commands that measure: `mangrove evaluate` and `mangrove bench`."""
