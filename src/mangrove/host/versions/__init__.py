"""What a site keeps of versions of the federation document."""
