"""The sides of a gateway's protocol engine, each in a module; `overlay.engine` is the whole."""
