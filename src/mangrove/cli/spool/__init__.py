"""What clients keep on disk for a broker that is away."""
