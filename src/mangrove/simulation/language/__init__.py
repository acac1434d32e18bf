"""A small language with known synonyms, which publishers and subscribers speak in experiments."""
