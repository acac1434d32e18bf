"""What publishers, subscribers and agents agree on about mirrors."""
