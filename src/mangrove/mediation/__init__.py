"""What a transform does to one message. Only the processes that gateways start for it come here."""
