"""Keys of a federation on this machine: where they are, how they are made, and how they are used."""
