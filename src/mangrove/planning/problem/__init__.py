"""The allocation problem: its parts, its document, and the figures that it is made from."""
