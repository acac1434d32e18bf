"""Published scenarios message by message: what happens to each while links slow down, fail and heal."""
