"""Damage: a broker's capacity is cut under load, and it shows who is heard then."""
