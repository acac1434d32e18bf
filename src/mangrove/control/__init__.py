"""The agents' brain: load, distribution, offloading, directory and sessions; pure, `handle(event, now)`."""
