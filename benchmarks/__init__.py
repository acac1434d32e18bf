"""Side-by-side measurements, each a ratio in one run; `mangrove bench NAME` runs them."""
