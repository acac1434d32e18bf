"""Tables for people: laid out for the width of the terminal, so that nothing that matters is cut."""
