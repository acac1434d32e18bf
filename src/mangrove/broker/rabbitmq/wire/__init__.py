"""AMQP 0-9-1 as a gateway speaks it: whole buffers, and by hand what comes by the thousand."""
