"""The network to route in: graphs, places, files, generated ones."""
