"""Sealing and opening of bodies with the domain's keys. Imported only where a contract is confidential."""
