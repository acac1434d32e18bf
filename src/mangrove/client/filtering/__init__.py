"""What a client does not send: beyond a limit, or because nobody listens."""
