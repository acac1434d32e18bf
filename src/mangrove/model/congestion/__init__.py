"""Speaking less: parameters of congestion control, limits of rates, and how useful a message is."""
