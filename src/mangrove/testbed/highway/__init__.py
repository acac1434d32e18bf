"""A national highway's messages: regions with toll booths, sensors and control centres, and what fails."""
