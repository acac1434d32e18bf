"""Many subject patterns at once: which match, and which no other one covers."""
