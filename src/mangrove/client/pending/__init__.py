"""What waits for a subscriber that is slower than its messages, and what is left out."""
