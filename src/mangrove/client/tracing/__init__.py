"""Publishers begin traces of a few messages, subscribers end them, where that is asked for."""
