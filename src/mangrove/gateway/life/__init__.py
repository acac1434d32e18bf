"""One life of a gateway: how it is put together, does what the engine says, and tells of itself."""
