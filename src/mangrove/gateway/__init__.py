"""The gateway daemon: overlay engine, sockets and the head broker."""
