"""How we log in at brokers that somebody else runs: where the secrets are, never what they are."""

from __future__ import annotations

import msgspec


class ExternalCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """A user of somebody else's brokers: by a password or by an NKEY, read where we connect."""

    user: str = ""
    password_file: str = ""
    password_env: str = ""
    """Name of the environment variable that holds the password."""
    nkey_file: str = ""
    """File with the seed of its NKEY."""
    ca_file: str = ""
    """Certificates by which the brokers are judged; with it nothing is said to them in the clear."""
