"""Settings for all tests: hypothesis prints what is needed to repeat a failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("mangrove", deadline=None, print_blob=True)
settings.load_profile("mangrove")
