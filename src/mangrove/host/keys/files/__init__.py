"""The files of a key directory: read with care, and changed as a whole."""
