"""The whole federation as metrics, from the feed that pages use: one place to collect from."""
