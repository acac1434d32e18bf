"""From other domains to the head broker: bodies of frames, what waits of them, and what their lines mean."""
