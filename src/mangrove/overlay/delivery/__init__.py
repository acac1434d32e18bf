"""The last step of a frame: new or not, in order, in time."""
