"""The whole network as one gateway sees it: link state, and the next hops that follow from it."""
