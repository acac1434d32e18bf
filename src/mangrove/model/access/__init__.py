"""Who may publish and subscribe to what: rules, what they decide, and what they mean to a broker."""
