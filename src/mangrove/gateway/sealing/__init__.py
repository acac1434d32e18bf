"""Sealing and opening of bodies with the domain's keys. Imported only where there are keys."""
