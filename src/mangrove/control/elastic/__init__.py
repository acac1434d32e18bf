"""Brokers that come and go with the load: switched off when few do, on again before load asks for it."""
