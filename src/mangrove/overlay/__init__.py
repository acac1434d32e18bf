"""Pure (sans-IO) gateway protocol: frames, interest, forwarding, de-duplication. Time is an argument."""
