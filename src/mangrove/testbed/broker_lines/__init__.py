"""A broker's own line, emulated: all that it sends, and all that it receives, shares one bandwidth each."""
