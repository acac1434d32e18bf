"""One link: is it alive, what waits for it, what was sent and not yet acknowledged."""
