"""Virtual time and a virtual network that drive the production engines."""
