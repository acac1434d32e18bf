"""What domains know of each other's publications, and how it travels from neighbour to neighbour."""
